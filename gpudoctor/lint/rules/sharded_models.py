"""Rules of models that FSDP has sharded: T77, and of accelerate's file beside their program: C10."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.call_order import is_optimizer_of, scopes
from gpudoctor.lint.told_together import of_launch

_HEAD = (
    "import torch\nimport torch.distributed as dist\n"
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    "dist.init_process_group('nccl')\nnet = FSDP(Net().cuda(){})\n"
)


def _sharded(code: PythonCode) -> list[ast.Call]:
    """The calls that shard a model, of those that keep no whole copy."""
    return [
        call
        for call in code.calls
        if re.fullmatch(r"torch\.distributed\.fsdp(?:\.\w+)*\.FullyShardedDataParallel", code.name(call.func))
        and "NO_SHARD" not in code.words(call)
    ]


_CLIP = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"


@rule(
    "T77",
    title="Gradients of a sharded model are clipped by the model",
    severity="warning",
    source="torch/distributed/fsdp/fully_sharded_data_parallel.py, clip_grad_norm_: torch.nn.utils' sees the rank's own"
    " shards; pytorch#88621",
    bad=(_HEAD.format("") + _CLIP, _HEAD.format(", use_orig_params=True") + "loss.backward()\n" + _CLIP),
    good=(
        _HEAD.format("") + "net.clip_grad_norm_(1.0)\n",
        _HEAD.format(", sharding_strategy=ShardingStrategy.NO_SHARD") + _CLIP,
        _HEAD.format("").replace("net = FSDP(Net().cuda())", "other = FSDP(Net().cuda())") + _CLIP,
    ),
)
def clipped_by_shards(job: LintJob) -> Iterator[LintFinding]:
    """torch.nn.utils.clip_grad_norm_ computes the norm of what the rank holds, and clips by it: each rank by
    another one."""
    for code in codes(job):
        names = {
            target.id
            for call in _sharded(code)
            if isinstance(above := code.parents.get(call), ast.Assign)
            for target in above.targets
            if isinstance(target, ast.Name)
        }
        for call in code.calls:
            given = argument(call, "parameters", 0)
            words = code.words(given) if given is not None else ""
            name = words.removesuffix(".parameters()")
            if code.torch_name(call.func) == "clip_grad_norm_" and name in names and name != words:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"clip_grad_norm_ of torch.nn.utils sees this rank's shards of {name} alone",
                    happens="Each rank computes another norm and clips by it: it trains otherwise than was meant.",
                    fix=f"Write {name}.clip_grad_norm_(...), which all ranks call.",
                )


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
                            f" before prepare() wraps it (line {code.line + made[0].lineno - 1})",
                            happens="It steps parameters that the model has no more: the loss does not move.",
                            fix="Write fsdp_use_orig_params: true, or prepare the model first and make the optimizer of"
                            " what comes back.",
                        )
                        return
