"""Rules of calls that talk to all ranks though their name does not say so: T45."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.programs import FIRST_ONLY
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "#@ file train.py\nimport torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
_FSDP = (
    _HEAD + "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(net)\nrank ="
    " dist.get_rank()\n"
)
_DEEPSPEED = "#@ file train.py\nimport deepspeed\nengine, _, _, _ = deepspeed.initialize(model=net, config='d.json')\n"
_HVD = "#@ file train.py\nimport horovod.torch as hvd\nhvd.init()\n"
_RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=2 train.py\n"
_OF_MAKERS: dict[str, tuple[frozenset[str], str]] = {
    "FullyShardedDataParallel": (
        frozenset(("state_dict", "full_optim_state_dict", "optim_state_dict", "summon_full_params")),
        "the shards of all ranks are gathered for it",
    ),
    "deepspeed.initialize": (
        frozenset(("save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model", "step", "backward")),
        "every rank writes its part, and waits for the others",
    ),
    "Trainer": (
        frozenset(("save_checkpoint", "fit", "validate", "test", "predict")),
        "Lightning waits for all ranks in it",
    ),
}
"""What an object is made by, its methods that all ranks must call, and why. DeepSpeed's documentation, Model
Checkpointing: all processes must call this method; Lightning 2.6, Trainer.save_checkpoint: a barrier at its end;
torch.distributed.fsdp: state_dict is a collective."""
_FUNCTIONS = {
    "torch.distributed.new_group": "every rank of the world must call it, members or not",
    "torch.distributed.checkpoint.save": "every rank writes its part, and waits for the others",
    "torch.distributed.checkpoint.save_state_dict": "every rank writes its part, and waits for the others",
    "torch.distributed.checkpoint.state_dict.get_model_state_dict": "the shards of all ranks are gathered for it",
    "torch.distributed.checkpoint.state_dict.get_state_dict": "the shards of all ranks are gathered for it",
    **dict.fromkeys(
        [f"torch_xla.core.xla_model.{name}" for name in
         ("save", "rendezvous", "mesh_reduce", "all_reduce", "all_gather", "optimizer_step", "reduce_gradients")],
        "all cores meet in it"),
    **dict.fromkeys(
        [f"horovod.torch.{name}" for name in
         ("allreduce", "allgather", "broadcast", "broadcast_parameters", "broadcast_object", "allgather_object",
          "broadcast_optimizer_state", "allreduce_", "broadcast_", "barrier")],
        "Horovod waits for the same call of all ranks"),
}  # fmt: skip
_FIRST_OF_HOROVOD = lazy_re(r"^(?:hvd|horovod(?:\.torch)?)\.(?:local_)?rank\(\) == 0$|^not hvd\.rank\(\)$")
_MEMBERS = lazy_re(r"^(?:\w+\.)*(?:global_)?rank in [\w\[(.]|^(?:\w+\.)*(?:global_)?rank (?:<|>=|>|<=) \w")
"""A condition that some ranks meet."""


@rule(
    "T45",
    title="What talks to all ranks is called by all ranks",
    source="torch.distributed.new_group, FSDP.state_dict, DeepSpeed's save_checkpoint, Lightning's save_checkpoint,"
    " Horovod's collectives: their documentation",
    leads_to=("rank0-only-collective",),
    bad=(
        _FSDP + "if rank == 0:\n    torch.save(model.state_dict(), 'a.pt')\n" + _RUN,
        _DEEPSPEED + "if rank == 0:\n    engine.save_checkpoint('out')\n" + _RUN,
        _HEAD + "rank = dist.get_rank()\nif rank in (0, 1):\n    group = dist.new_group([0, 1])\n" + _RUN,
        _HVD + "if hvd.rank() == 0:\n    hvd.allreduce(x)\n#@ every node\nhorovodrun -np 4 -H h:4 python t.py\n",
    ),
    good=(
        _FSDP + "state = model.state_dict()\nif rank == 0:\n    torch.save(state, 'a.pt')\n" + _RUN,
        _DEEPSPEED + "engine.save_checkpoint('out')\n" + _RUN,
        _HEAD + "net = DistributedDataParallel(net)\nif dist.get_rank() == 0:\n    save(net.state_dict())\n" + _RUN,
        _HEAD + "rank = dist.get_rank()\ngroup = dist.new_group([0, 1])\nif rank in (0, 1):\n    go(group)\n" + _RUN,
    ),
)
def hidden_collective_on_one_rank(job: LintJob) -> Iterator[LintFinding]:
    """Saving shards, making a group: such calls wait for the other ranks, as a barrier does."""
    for code in codes(job):
        makers = _made(code)
        for call in code.calls:
            why = _why(code, call, makers)
            if not why:
                continue
            test = _condition(code, call, "new_group" in why or code.name(call.func).endswith("new_group"))
            if test:
                words = code.words(call.func)
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{words}() stands below `if {test}`, and all ranks must come to it: {why}",
                    happens="It waits for the other ranks until the time-out.",
                    fix="Call it on every rank, and write or print below the condition.",
                )


def _why(code: PythonCode, call: ast.Call, makers: dict[str, str]) -> str:
    """Why all ranks must call it; empty of other calls."""
    if why := _FUNCTIONS.get(code.name(call.func), ""):
        return why
    if not isinstance(call.func, ast.Attribute):
        return ""
    methods, why = _OF_MAKERS.get(makers.get(ast.unparse(call.func.value), ""), (frozenset(), ""))
    return why if call.func.attr in methods else ""


def _made(code: PythonCode) -> dict[str, str]:
    """Names that are bound to what one of these makers makes, and to nothing else."""
    found: dict[str, set[str]] = {}
    for node in code.nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
        if not isinstance(first, (ast.Name, ast.Attribute)):
            continue
        found.setdefault(ast.unparse(first), set()).add(_maker(code, node.value))
    sharded = {name: makers - {""} for name, makers in found.items()}
    return {name: makers.pop() for name, makers in sharded.items() if len(makers) == 1}


def _maker(code: PythonCode, value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    name = code.name(value.func)
    if name == "deepspeed.initialize":
        return name
    if name.startswith("torch.distributed.fsdp.") and name.endswith("FullyShardedDataParallel"):
        return "FullyShardedDataParallel"
    is_lightning = name.partition(".")[0] in ("lightning", "pytorch_lightning")
    return "Trainer" if is_lightning and last_name(value.func) == "Trainer" else ""


def _condition(code: PythonCode, call: ast.Call, members: bool) -> str:
    """The condition around it that not all ranks meet, where no other branch does the same."""
    below: ast.AST = call
    for above in code.around(call):
        if isinstance(above, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return ""
        if isinstance(above, ast.If) and below in above.body:
            both = isinstance(above.test, ast.BoolOp) and isinstance(above.test.op, ast.And)
            tests = [ast.unparse(each) for each in (above.test.values if both else [above.test])]  # type: ignore[attr-defined]
            test = next((each for each in tests if FIRST_ONLY.match(each) or _FIRST_OF_HOROVOD.match(each)), tests[0])
            one = FIRST_ONLY.match(test) or _FIRST_OF_HOROVOD.match(test) or (members and _MEMBERS.match(test))
            name = last_name(call.func)
            elsewhere = any(
                isinstance(each, ast.Call) and last_name(each.func) == name for other in above.orelse
                for each in walked(other)
            )  # fmt: skip
            if one and not elsewhere:
                return test
        below = above
    return ""
