"""Where a rank spends the time that others do not: its main thread's stacks against those of ranks not late."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from gpudoctor.hang.report import ProgramLine
from gpudoctor.knowledge.place_markers import normal
from gpudoctor.knowledge.places import place_of
from gpudoctor.snapshot.evidence import Frame, Thread
from gpudoctor.snapshot.pace import ProcessPace

Phase = Literal["input", "forward", "backward", "optimizer", "collective", "storage", "GPU", "compile", "host code"]
"""Of a step. collective: it waits for others there, or is held up by its network. GPU: its CPU waits for its GPU."""
PHASES: tuple[tuple[Phase, str, frozenset[str] | None], ...] = (
    ("input", "torch/utils/data/", None),
    ("input", "webdataset/", None),
    ("input", "nvidia/dali/", None),
    ("backward", "torch/autograd/__init__.py", frozenset({"backward", "grad"})),
    ("backward", "torch/autograd/graph.py", frozenset({"_engine_run_backward"})),
    ("optimizer", "torch/optim/", None),
    ("optimizer", "torch/nn/utils/clip_grad.py", None),
    ("optimizer", "torch/amp/grad_scaler.py", None),
    ("forward", "torch/nn/modules/module.py", frozenset({"_call_impl", "_wrapped_call_impl"})),
    ("forward", "torch/nn/parallel/distributed.py", frozenset({"forward"})),
)
"""By the outermost frame that is one of these: what a dataset computes is input, what is computed again in the
backward is backward."""
KINDS: dict[str, Phase] = {
    "collective": "collective",
    "point-to-point": "collective",
    "cuda sync": "GPU",
    "data": "input",
    "storage": "storage",
    "compile": "compile",
    "backward": "backward",
}
LEAST_SAID = 3.0
"""Logarithm of how much likelier the samples must be: twenty times."""
LEAST_MORE = 2.0
"""Than by the next best part: seven times."""
NEAR_LINES = 4
LEAST_AT_A_LINE = 2
"""Samples: one may be chance."""
T = TypeVar("T")


class StepPart(Struct, frozen=True):
    """A part of the step, and the user's line in it."""

    phase: Phase
    line: ProgramLine | None = None


class TimeSpent(Struct, frozen=True, kw_only=True):
    """Where a late rank is, when others have passed there."""

    phase: Phase
    where: ProgramLine | None = None
    samples: int
    """In which it stood in this phase."""
    of: int
    others: int = 0
    """The same of ranks that are not late."""
    of_others: int = 0
    waits_for_worker: bool = False
    """For one of its data loader's workers, and not in the data set itself."""
    others_too: bool = False
    """At the same line, where one is told, others were seen half as often at least."""


def part_of(thread: Thread, backend: str = "") -> StepPart:
    """`backend`: of the group. gloo's ranks compute on the processor, so that the thread that has called backward runs
    it: asleep in it, it waits for what DistributedDataParallel sums up there."""
    place = place_of(thread, gpu=True)
    line = (
        ProgramLine(place.user_frame.file, place.user_frame.line, place.user_frame.function)
        if place.user_frame
        else None
    )
    if place.kind in ("collective", "point-to-point"):
        return StepPart("collective", line)
    outer = next((phase for frame in reversed(thread.frames) if (phase := _phase(frame)) is not None), None)
    kind = KINDS.get(place.kind)
    python = next((frame for frame in thread.frames if not frame.native), None)
    if backend == "gloo" and "futex" in thread.waits_in and python is not None and _phase(python) == "backward":
        return StepPart("collective", line)
    if kind in ("GPU", "storage", "compile") and outer != "input":
        return StepPart(kind, line)
    return StepPart(outer or kind or "host code", line)


def _phase(frame: Frame) -> Phase | None:
    if frame.native or not frame.file:
        return None
    file, function = normal(frame.file), frame.function.rpartition(".")[2]
    for phase, part, functions in PHASES:
        if f"/{part}" in file and (functions is None or function in functions):
            return phase
    return None


def waits_for_worker(thread: Thread) -> bool:
    """Whether it waits for what a data loader's worker has not brought yet."""
    names = {frame.function.rpartition(".")[2] for frame in thread.frames}
    return bool(names & {"_try_get_data", "_get_data"})


def time_spent(
    late: Sequence[ProcessPace],
    others: Sequence[ProcessPace],
    share: float,
    backend: str = "",
    *,
    may_wait: bool = False,
) -> TimeSpent | None:
    """`share`: of each step, that is lost. None where the samples do not tell.

    A late rank does all that the others do, and while they wait it does one thing for longer. Of each part of the step
    it is asked how much likelier its samples are if that is the one: `_speaks_for`. `may_wait`: it may as well do
    nothing for longer, and come late for want of what it waits for; then what it was seen to do elsewhere counts too.
    """
    own, rest = _counted(late, backend), _counted(others, backend)
    of, of_others = sum(own.values()), sum(rest.values())
    against = of if may_wait else 0
    phases, passed = _by_phase(own), _passed(rest, own)
    others_in = _by_phase(passed)
    by_line = {
        part: _speaks_for(count, passed[part], of_others, share, against)
        for part, count in own.items()
        if part.line is not None and part.phase != "collective"
    }
    # All may be in the same part of the step for long, and one of them at a line in it where the others never are.
    # Where it is not longer than others, all in all, it is by chance that it was seen there once more.
    best = _likeliest(
        {
            phase: max(
                (
                    _speaks_for(count, usual, of_others, share, against)
                    for count, usual in (
                        (phases[phase], others_in[phase]),
                        *((own[part], passed[part]) for part in by_line if part.phase == phase),
                    )
                    if (count >= LEAST_AT_A_LINE or count == phases[phase])
                    and _speaks_for(count, usual, of_others, share, of) > 0
                ),
                default=0.0,
            )
            for phase in phases
            if phase != "collective"
        }
    )
    if best is None:
        return None
    line = _likeliest_line({part.line: said for part, said in by_line.items() if part.phase == best and part.line})
    there = {part for part in own if part.phase == best and (line is None or _is_near(part.line, line))}
    at, others_at = (sum(parts[part] for part in there) for parts in (own, rest))
    stacks = [stack for process in late for stack in process.stacks if part_of(stack.thread, backend).phase == best]
    count = sum(stack.count for stack in stacks)
    for_worker = sum(stack.count for stack in stacks if waits_for_worker(stack.thread))
    return TimeSpent(
        phase=best,
        where=line,
        samples=count,
        of=of,
        others=_by_phase(rest)[best],
        of_others=of_others,
        waits_for_worker=2 * for_worker > count,
        others_too=2 * others_at * of >= at * of_others > 0,
    )


def _speaks_for(count: int, of_others: int, all_others: int, share: float, of: int) -> float:
    """By how much (a logarithm) `count` samples in a part are likelier where it is the part that takes so much longer.
    The half and the one: what others were not seen in they may still pass. A part in which all of them always are says
    nothing: nobody is in it for longer than always. `of`: all samples, where those elsewhere speak against it."""
    usual = (of_others + 0.5) / (all_others + 1.0)
    more = min(1.0, usual + share)
    elsewhere = max(0, of - count)
    return count * math.log(more / usual) + elsewhere * math.log(max(1e-3, 1.0 - more) / max(1e-3, 1.0 - usual))


def _likeliest(parts: dict[T, float]) -> T | None:
    """The part for which most speaks, where that is enough, and clearly more than for any other."""
    ordered = sorted(parts, key=lambda part: -parts[part])
    if not ordered or parts[ordered[0]] < LEAST_SAID:
        return None
    if len(ordered) > 1 and parts[ordered[0]] < parts[ordered[1]] + LEAST_MORE:
        return None
    return ordered[0]


def _likeliest_line(lines: dict[ProgramLine, float]) -> ProgramLine | None:
    """Lines that stand close together in one function are one place: a loop's, of which now this one is seen, now that
    one. Told is the likeliest of them."""
    if not lines:
        return None
    first = max(lines, key=lambda line: lines[line])
    near = {line for line in lines if _is_near(line, first)}
    places = {line: said for line, said in lines.items() if line not in near}
    places[first] = sum(max(0.0, lines[line]) for line in near)
    return _likeliest(places)


def _is_near(line: ProgramLine | None, place: ProgramLine) -> bool:
    if line is None or (line.file, line.function) != (place.file, place.function):
        return False
    return abs(line.line - place.line) <= NEAR_LINES


def _counted(processes: Iterable[ProcessPace], backend: str) -> Counter[StepPart]:
    counted_parts: Counter[StepPart] = Counter()
    for process in processes:
        for stack in process.stacks:
            counted_parts[part_of(stack.thread, backend)] += stack.count
    return counted_parts


def _passed(rest: Counter[StepPart], own: Counter[StepPart]) -> Counter[StepPart]:
    """How often others were seen in each part; where they wait in a collective at a line at which the late rank was
    seen to run, there too: while it runs the backward, they may already wait for what is summed up there."""
    passed = Counter(rest)
    for part, count in rest.items():
        for at in own if part.phase == "collective" and part.line is not None else ():
            if at.line == part.line and at.phase != "collective":
                passed[at] += count
    return passed


def _by_phase(parts: Counter[StepPart]) -> Counter[Phase]:
    phases: Counter[Phase] = Counter()
    for part, count in parts.items():
        phases[part.phase] += count
    return phases
