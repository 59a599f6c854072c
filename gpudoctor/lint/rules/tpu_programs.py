"""Rules of programs that torch_xla starts: U09, U10."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = (
    "import torch_xla.core.xla_model as xm\nimport torch_xla.distributed.xla_multiprocessing as xmp\n"
    "def work(index):\n    loss.backward()\n    {}\nif __name__ == '__main__':\n    xmp.spawn(work{})\n"
)
_STEP = "xm.optimizer_step(optimizer)"
AVERAGES = lazy_re(r"optimizer_step|reduce_gradients|all_reduce|FullyShardedDataParallel|DistributedDataParallel|FSDP")
SPAWN = "torch_xla.distributed.xla_multiprocessing.spawn"
REFUSES = (2, 6)
IGNORES = (2, 1)


def _spawns(code: PythonCode) -> Iterator[tuple[ast.Call, object]]:
    """Calls of xmp.spawn and torch_xla.launch; with the number of processes of the former."""
    for call in code.calls:
        if code.name(call.func) in (SPAWN, "torch_xla.launch"):
            told = argument(call, "nprocs", 2) if code.name(call.func) == SPAWN else None
            yield call, PythonValues(code).value(told)


@rule(
    "U09",
    title="xmp.spawn is told no number of processes",
    needs="facts",
    source="torch_xla/_internal/pjrt.py, spawn, of the wheels of 2.3.0, 2.5.0 (a warning) and 2.6.0 (ValueError)",
    leads_to=("program-error",),
    bad=(_HEAD.format(_STEP, ", nprocs=8"), _HEAD.format(_STEP, ", args=(), nprocs=4, start_method='fork'")),
    good=(_HEAD.format(_STEP, ""), _HEAD.format(_STEP, ", nprocs=1")),
)
def number_of_tpu_processes(job: LintJob) -> Iterator[LintFinding]:
    """PJRT starts a process for each chip of the machine. One process or all of them is the only choice."""
    version = job.facts.version("torch-xla")
    if version is not None and version < IGNORES:
        return
    refuses = version is None or version >= REFUSES
    for code in codes(job):
        for call, count in _spawns(code):
            told = argument(call, "nprocs", 2)
            if told is not None and type(count) is int and count != 1:
                yield LintFinding(
                    span=code.span(told),
                    severity=None if refuses else "warning",
                    summary=f"xmp.spawn with nprocs={code.words(told)[:40]}: since torch_xla 2.6 it takes 1, or nothing"
                    " for all devices",
                    happens=f"ValueError: Unsupported nprocs ({count})."
                    if refuses
                    else f"A warning, Unsupported nprocs ({count}), ignoring...: all devices are taken.",
                    fix="Leave nprocs out; TPU_NUM_DEVICES in the environment takes fewer.",
                )


@rule(
    "U10",
    title="Spawned processes of a TPU average their gradients",
    source="torch_xla/core/xla_model.py: optimizer_step reduces the gradients, then steps",
    bad=(_HEAD.format("optimizer.step()", ""), _HEAD.format("optimizer.step()", ", args=(flags,), nprocs=None")),
    good=(
        _HEAD.format(_STEP, ""),
        _HEAD.format("xm.reduce_gradients(optimizer); optimizer.step()", ""),
        _HEAD.format("optimizer.step()", ", nprocs=1"),
    ),
)
def tpu_gradients_apart(job: LintJob) -> Iterator[LintFinding]:
    """optimizer.step() uses the gradients of one process alone; xm.optimizer_step() averages them over all first."""
    for code in codes(job):
        several = any(count != 1 for _, count in _spawns(code))
        methods = [call for call in code.calls if isinstance(call.func, ast.Attribute)]
        named = {call.func.attr: call for call in methods if isinstance(call.func, ast.Attribute) and not call.args}
        if several and "backward" in named and "step" in named and not AVERAGES.search(code.text):
            yield LintFinding(
                span=code.span(named["step"]),
                summary="nothing averages the gradients of the processes that torch_xla starts",
                happens="Each device trains a model of its own, on its share of the data.",
                fix="Write xm.optimizer_step(optimizer) in place of optimizer.step().",
            )
