"""Rules of an optimizer that is made before FSDP shards its model: C10, U29."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.call_order import is_optimizer_of, scopes
from gpudoctor.lint.told_together import of_launch

_YAML = (
    "accelerate launch --config_file f.yaml t.py\n#@ file f.yaml\ndistributed_type: FSDP\nfsdp_config:\n"
    "  fsdp_use_orig_params: {}\nnum_machines: 1\nnum_processes: 4\n#@ file t.py\nimport torch\n"
    "from accelerate import Accelerator\naccelerator = Accelerator()\n{}"
)
_BEFORE = "optimizer = torch.optim.AdamW(net.parameters())\nnet, optimizer = accelerator.prepare(net, optimizer)\n"
_AFTER = (
    "net = accelerator.prepare(net)\noptimizer = torch.optim.AdamW(net.parameters())\n"
    "optimizer = accelerator.prepare(optimizer)\n"
)


@rule(
    "C10",
    title="With fsdp_use_orig_params: false the optimizer is made behind prepare",
    severity="warning",
    source="accelerate#3256; accelerate's guide of FSDP: prepare the model before the optimizer is made",
    bad=(_YAML.format("false", _BEFORE), _YAML.format("'false'", _BEFORE)),
    good=(_YAML.format("true", _BEFORE), _YAML.format("false", _AFTER)),
)
def optimizer_before_prepare(job: LintJob) -> Iterator[LintFinding]:
    """Without use_orig_params FSDP makes flat parameters of the model's. An optimizer that was made before holds the
    old ones: the loss does not move."""
    for code, starts in codes_and_starts(job):
        for launch in starts:
            given = of_launch(job, launch, None)
            told = given.options.get("accelerate.fsdp_config.fsdp_use_orig_params")
            if told is None or given.value("accelerate.fsdp_config.fsdp_use_orig_params", {}) is not False:
                continue
            for nodes in scopes(code):
                calls = [node for node in nodes if isinstance(node, ast.Call)]
                prepares = [call for call in calls if last_name(call.func) == "prepare" and call.args]
                for call in prepares:
                    names = [each.id for each in call.args if isinstance(each, ast.Name)]
                    made = [each for each in calls if any(is_optimizer_of(code, each, name) for name in names)]
                    if made and made[0].lineno < call.lineno:
                        yield LintFinding(
                            span=told.word.span,
                            summary="fsdp_use_orig_params is false, and the optimizer is made of the model's parameters"
                            f" before prepare() wraps it (line {code.line_of(made[0])})",
                            happens="It steps parameters that the model has no more: the loss does not move.",
                            fix="Write fsdp_use_orig_params: true, or prepare the model first and make the optimizer of"
                            " what comes back.",
                        )
                        return


_FSDP = (
    "#@ file t.py\nimport os\nimport torch\nimport torch.distributed as dist\n"
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard\n"
    "dist.init_process_group('nccl')\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
    "net = torch.nn.Linear(8, 8).cuda()\n{}"
    "net(x).sum().backward()\nopt.step()\n#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py\n"
)
_MADE = "opt = torch.optim.AdamW(net.parameters())\n"
_SHARDS = lazy_re(r"torch\.distributed\.(?:fsdp|_composable)(?:\.\w+)*\.(?:FullyShardedDataParallel|fully_shard)")


@rule(
    "U29",
    title="The optimizer is made of the sharded model's parameters",
    source="torch 1.12 to 2.13, FullyShardedDataParallel: initialize the optimizer after the module has been wrapped;"
    " fully_shard replaces parameters by DTensors",
    bad=(_FSDP.format(_MADE + "net = FSDP(net)\n"), _FSDP.format(_MADE + "fully_shard(net)\n")),
    good=(
        _FSDP.format("net = FSDP(net)\n" + _MADE),
        _FSDP.format(_MADE + "net = FSDP(net, use_orig_params=True)\n"),
        _FSDP.format("fully_shard(net)\n" + _MADE),
    ),
)
def optimizer_before_sharding(job: LintJob) -> Iterator[LintFinding]:
    """FSDP makes parameters of its own of the model's. An optimizer that was made before holds the old ones, which get
    no gradients."""
    for code, _ in codes_and_starts(job):
        if not code.brings("torch") or "fsdp" not in code.text:
            continue
        for nodes in scopes(code):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            for call in calls:
                model = _base(call.args[0]) if call.args else None
                if model is None or not _SHARDS.fullmatch(code.name(call.func)):
                    continue
                if any(each.arg in ("use_orig_params", None) for each in call.keywords):
                    continue
                made = [each for each in calls if is_optimizer_of(code, each, model.id) and each.lineno < call.lineno]
                again = [each for each in calls if is_optimizer_of(code, each, model.id) and each.lineno > call.lineno]
                if made and not again and not code.is_conditional(call):
                    yield LintFinding(
                        span=code.span(made[0]),
                        summary=f"the optimizer is made of {model.id}'s parameters before line {code.line_of(call)}"
                        " shards it",
                        happens="It steps parameters that get no gradients: the loss does not move.",
                        fix="Make the optimizer behind it, of what comes back.",
                    )
                    return


def _base(given: ast.expr) -> ast.Name | None:
    """`net` of `net.cuda()` and `net.to(device)`."""
    while (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and given.func.attr in ("cuda", "to", "train")
    ):
        given = given.func.value
    return given if isinstance(given, ast.Name) else None
