"""Rule of steps that run side by side in one job: S46."""

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.launchers.slurm import SRUN
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.allocation import header_value, whole
from gpudoctor.lint.model import Invocation, LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER
from gpudoctor.lint.shell.sbatch import options_of

_RAY = (
    HEADER + "HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
    "srun -N1 -n1 -w $HEAD ray start --head --port=6379 --block &\nsleep 20\n"
    "srun -N1 -n1 -x $HEAD ray start --address=$HEAD:6379 --block &\nsleep 20\n"
)
_TWO = HEADER.replace("--nodes=2", "--nodes=1").replace("per-node=1", "per-node=2")
_STAYS = lazy_re(
    r"ray start\b.*--block|\b(?:vllm serve|tensorboard|jupyter|dcgmi dmon|nvidia-smi (?:dmon|pmon|.*(?:-l\b|--loop)))"
    r"|sleep infinity|nvidia-cuda-mps-control -f|while (?:true|:)"
)
"""What does not end by itself."""
_SHARED = ("overlap", "jobid", "het-group", "multi-prog", "share", "oversubscribe")


class _OpenStep(Struct, frozen=True):
    invocation: Invocation
    nodes: int | None
    at: str
    """Of -w."""
    placed: bool
    """By -w, -x or -r."""
    bounded: bool
    """--exact, or -c, which implies it: it takes no more than it asks for."""

    @property
    def stays(self) -> bool:
        return _STAYS.search(" ".join(word.shown for word in self.invocation.words)) is not None


@rule(
    "S46",
    title="Steps that run side by side leave each other nodes, or overlap",
    source="srun(1) since Slurm 20.11: a step has its resources alone, and all of a node's without --exact; --overlap"
    " shares them: Job step creation temporarily disabled, retrying (Requested nodes are busy)",
    bad=(
        _RAY + "srun -N1 -n1 -w $HEAD python train.py\n",
        _RAY + "srun --ntasks=2 nvidia-smi\n",
        _TWO + "srun -n1 bash -c 'srun -n2 python train.py'\n",
        _TWO + "srun -n1 --gpus=1 python a.py &\nsrun -n1 --gpus=1 python b.py &\nwait\n",
    ),
    good=(
        _RAY + "srun --overlap -N1 -n1 -w $HEAD python train.py\n",
        _RAY + "python train.py\n",
        _TWO + "srun --exact -n1 -c8 --gpus=1 python a.py &\nsrun --exact -n1 -c8 --gpus=1 python b.py &\nwait\n",
        HEADER + "srun -N1 -n1 python a.py &\nsrun -N1 -n1 python b.py &\nwait\n",
    ),
)
def steps_that_wait_for_each_other(job: LintJob) -> Iterator[LintFinding]:
    """A step in the background holds its nodes until it ends: the next srun on one of them waits, and says no more
    than that the nodes are busy. A server never ends."""
    version = job.facts.version("slurm")
    if not job.is_batch or "SLURM_OVERLAP" in job.text or (version is not None and version < (20, 11)):
        return
    total, open_steps, last = whole(header_value(job, "nodes")), list[_OpenStep](), 0
    if total is None and header_value(job, "nodes") is None:
        total = 1
    for invocation in job.invocations:
        outer = next((each for each in invocation.within if each.program == "srun"), None)
        inner = invocation.program == "srun" and outer is not None and not invocation.conditional
        if inner and outer is not None and _step(outer, total) and _step(invocation, total):
            yield LintFinding(
                span=invocation.span,
                summary=f"srun starts a step inside of the step of line {outer.span.line}, which holds what it needs",
                happens="srun: Job step creation temporarily disabled, retrying (Requested nodes are busy): it waits"
                " for the step that it is a part of.",
                fix="Take the outer srun away (the batch script runs the file itself), or add --overlap to the inner.",
            )
            return
        if invocation.program != "srun" or invocation.where != "batch" or invocation.within or not invocation.reached:
            continue
        if invocation.span.start < last or re.search(
            r"^\s*wait\b", job.text[last : invocation.span.start], re.MULTILINE
        ):
            open_steps.clear()
        last = invocation.span.end
        step = _step(invocation, total)
        if step is None:
            continue
        held = _held(open_steps, step, total)
        if held is not None:
            forever = held.stays
            yield LintFinding(
                span=invocation.span,
                severity=None if forever else "warning",
                summary=f"This step waits for the one of line {held.invocation.span.line}, which holds the"
                f" node{'s' if (total or 2) > 1 else ''} and {'does not end' if forever else 'is still running'}",
                happens="srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)"
                + (": it waits until the time limit." if forever else ": they run one after the other."),
                fix="Add --overlap to it." if forever or step.stays
                else "Add --exact, -c and --gpus of its own to each of them; or --overlap, if they shall share.",
            )  # fmt: skip
            return
        if invocation.background and not invocation.conditional:
            open_steps.append(step)


def _step(invocation: Invocation, total: int | None) -> _OpenStep | None:
    own = {option.name: option for option in options_of(invocation.words, SRUN) if option.known}
    if own.keys() & {*_SHARED}:
        return None
    nodes = whole(own["nodes"].value) if "nodes" in own else total
    tasks = whole(own["ntasks"].value) if "ntasks" in own else None
    if tasks is not None and nodes is not None and "nodes" not in own:
        nodes = min(tasks, nodes)
    nodelist = next((option for option in SRUN.read(list(invocation.words)).options if option.name == "nodelist"), None)
    at = nodelist.value.shown.strip("\"'") if nodelist is not None and nodelist.value is not None else ""
    placed = bool(own.keys() & {"nodelist", "exclude", "relative"})
    return _OpenStep(invocation, nodes, at, placed, bool(own.keys() & {"exact", "cpus-per-task"}))


def _held(open_steps: list[_OpenStep], step: _OpenStep, total: int | None) -> _OpenStep | None:
    """An earlier step whose nodes this one needs."""
    for held in open_steps:
        if held.bounded and step.bounded:
            continue
        if step.at and step.at == held.at and not held.invocation.in_loop:
            return held
    rest = [held for held in open_steps if not (held.bounded and step.bounded)]
    if not rest or step.placed or total is None or step.nodes is None:
        return None
    if any(held.nodes is None for held in rest):
        return None
    taken = total if any(held.invocation.in_loop for held in rest) else sum(held.nodes or 0 for held in rest)
    return (next((held for held in rest if held.stays), rest[0])) if taken + step.nodes > total else None
