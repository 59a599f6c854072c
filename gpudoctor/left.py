"""What the program says of a job of which only a log is left: the lines that it names are read as `hang` reads them,
and so are its flight recorders, which torch writes when the time is up, without a word about where.

The log may be of another machine, or the program another one by now. So a line counts where it stands in the function
that the log names, and in a file that has not changed since the log was written; and a recorder where the rank has open
what the log says, with its number and size.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from msgspec.structs import replace

from gpudoctor.crowded import slowdown
from gpudoctor.explain.program import OfProgram, OpenCall, Stood, UserProgram
from gpudoctor.explain.stacks import StackFrame
from gpudoctor.hang.causes.collective_dumped import OF_PROGRAM
from gpudoctor.hang.conclude import conclude, ordered
from gpudoctor.hang.dumped import ELSEWHERE, left_by, of_places
from gpudoctor.hang.job import Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.recorded import backwards
from gpudoctor.hang.relation import is_kept_out, source_at
from gpudoctor.knowledge.on_the_way import OnTheWay, told_on
from gpudoctor.knowledge.place_markers import POINT_TO_POINT
from gpudoctor.knowledge.places import Kind, Place
from gpudoctor.read.job import recorder, recorder_files
from gpudoctor.read.job.source_ways import Ways
from gpudoctor.read.job.sources import Sources
from gpudoctor.snapshot.evidence import Evidence, Frame, Recorder, SourceContext
from gpudoctor.sure import LIKELY

SECONDS = 5.0


def program_of(paths: Sequence[str]) -> UserProgram:
    """What is asked of the program, as it was when these logs were written."""
    written = {Path(path): at for path in paths if (at := _written_at(path))}
    return _AsItWas(max(written.values(), default=time.time()), tuple(written))


class _AsItWas:
    def __init__(self, until: float, logs: Sequence[Path] = ()) -> None:
        self._until = until
        self._logs = logs
        self._ways: dict[tuple[str, tuple[str, ...]], Ways | None] = {}

    def __call__(self, stood: Mapping[int, Stood], world_size: int) -> Sequence[OfProgram]:
        frames = {number: tuple(Frame(*frame) for frame in each.frames) for number, each in stood.items()}
        sources = _read({frame: self._until for stack in frames.values() for frame in stack})
        if not sources:
            return []
        places = {
            number: Place(
                "backward" if each.in_backward else _kind(each.operation),
                "backward" if each.in_backward else each.operation,
                None,
                frames[number][0],
                frames[number],
            )
            for number, each in stood.items()
            if each.frames
        }
        hooked = _in_backward(list(places.values()), sources)
        job = of_places({**dict.fromkeys(stood, hooked), **places}, world_size, sources)
        if any(is_kept_out(rank) for rank in job.ranks):
            return []  # of several lines that fit an operation, not these
        causes = ordered([cause for rule in OF_PROGRAM for cause in rule(job)], progress_of(job))
        return [OfProgram(cause.cause, cause.confidence, cause.ranks, cause.summary) for cause in causes]

    def recorded(self, opened: Mapping[int, OpenCall], world_size: int) -> Sequence[OfProgram]:
        for place in dict.fromkeys(_places(self._logs, min(opened))):
            dumps = [dump for dump in recorder.of_folder(place)[0] if self._is_of_then(dump)]
            if dumps and _are_of_the_job(dumps, opened, world_size):
                return _told_by(dumps)
        return []

    def _is_of_then(self, dump: Recorder) -> bool:
        """Whether it was written when this log ended, by who may write here: in /tmp anybody leaves files."""
        try:
            owner = os.lstat(dump.source).st_uid
        except OSError:
            return False
        recent = self._until - STILL_WRITTEN < dump.written_at < self._until + CLOCKS_APART
        return recent and owner in {os.geteuid(), *map(_owner, self._logs)}

    def ways(self, program: str, said: Sequence[str], operation: str, elements: int | None) -> Sequence[Stood]:
        found = self._ways_of(program, tuple(said))
        calls = CALLED_AS.get(operation, ())
        if found is None or not calls or (found.hooks and operation != "allreduce"):
            return ()
        if operation == "allreduce" and elements == 1:
            calls = (*calls, "barrier")
        elif found.hooks:
            calls = (*calls, "backward")
        return tuple(
            Stood(
                "" if way.call == "backward" else way.call,
                tuple(StackFrame(frame.function, frame.file, frame.line) for frame in way.stack),
                way.call == "backward",
            )
            for way in found.ways
            if way.call in calls and not (way.call == "all_reduce" and way.elements not in (None, elements))
        )

    def _ways_of(self, program: str, said: tuple[str, ...]) -> Ways | None:
        """Read once, for all operations of which is asked."""
        if (program, said) not in self._ways:
            found = None
            if _written_at(program):  # else no child is started to say so
                sources = Sources()
                try:
                    found = sources.ways(program, said, self._until)
                finally:
                    sources.end()
            self._ways[program, said] = found
        return self._ways[program, said]

    def between(self, said: str, stood: Stood, further: int) -> OnTheWay | None:
        stack = [Frame(*frame) for frame in stood.frames]
        sources = Sources()
        try:
            passage = sources.passage(stack, said, further, self._until, hooked=stood.in_backward)
        finally:
            sources.end()
        return told_on(passage) if passage is not None else None


CALLED_AS: dict[str, tuple[str, ...]] = {
    "allreduce": ("all_reduce",),
    "barrier": ("barrier",),  # as DETAIL's comparison calls it
    "broadcast": ("broadcast", "broadcast_object_list", "scatter_object_list"),
    "allgather": ("all_gather", "all_gather_into_tensor", "all_gather_object", "gather_object"),
    "gather": ("gather", "gather_object"),
    "scatter": ("scatter", "scatter_object_list"),
    "reduce": ("reduce",),
    "reducescatter": ("reduce_scatter", "reduce_scatter_tensor"),
    "alltoall": ("all_to_all", "all_to_all_single"),
}
"""Calls of torch.distributed by the operation that ProcessGroupNCCL makes of them, or begins them with."""
STILL_WRITTEN = 3600.0
"""Seconds that a log may go on after recorders were written: torchrun starts a job again (our own bound)."""
CLOCKS_APART = 120.0
"""Seconds: a file server has a clock of its own, and the ranks write one after the other."""
BESIDE = ("dumps/nccl_trace_rank_", "dumps/comm_lib_trace_rank_", "nccl_trace_rank_", "comm_lib_trace_rank_")
"""Where dumps lie beside a log: what `gpudoctor run` keeps, and who has moved them there."""
LESS_THAN_LOGS = ("rank-away", "rank-died", "gpu-stuck")
"""Who did not come, or has ended, the log tells better."""


def _places(logs: Sequence[Path], rank: int) -> Iterator[str]:
    """The beginnings of the names of dumps, of which that rank's is there."""
    names = [*(f"{log.parent / stem}{rank}" for log in logs for stem in BESIDE)]
    for name in (*names, *recorder_files.places(rank, os.environ)):
        if Path(name).is_file():
            yield name.removesuffix(str(rank))


def _are_of_the_job(dumps: Sequence[Recorder], opened: Mapping[int, OpenCall], world_size: int) -> bool:
    """Whether each rank that waits by the log has that open in its dump, of as many elements."""
    recorders = {dump.rank: dump for dump in dumps}
    if any(rank is None or rank >= world_size for rank in recorders):
        return False
    return all(rank in recorders and _has_open(recorders[rank], one) for rank, one in opened.items())


def _has_open(dump: Recorder, one: OpenCall) -> bool:
    """Of sends and receives the recorder counts otherwise than the watchdog."""
    return any(
        entry.state != "completed"
        and (entry.point_to_point or entry.sequence == one.sequence)
        and one.elements in (None, 0, sum(map(prod, entry.input_sizes)))
        for entry in dump.entries
    )


def _told_by(dumps: Sequence[Recorder]) -> Sequence[OfProgram]:
    sources = Sources()
    try:
        read = sources.left(dumps, time.monotonic() + SECONDS * slowdown())
    finally:
        sources.end()
    jobs = conclude(Evidence(dumps=tuple(dumps), sources=read, time=time.time())).jobs
    causes = [cause for job in jobs[:1] for cause in job.causes]
    if not causes or causes[0].confidence < LIKELY or causes[0].cause in LESS_THAN_LOGS:
        return []
    return [OfProgram(cause.cause, cause.confidence, tuple(cause.ranks), cause.summary) for cause in causes]


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return os.geteuid()


def _kind(operation: str) -> Kind:
    return "point-to-point" if operation in POINT_TO_POINT.split() else "collective"


def _written_at(path: str) -> float:
    """0 of what is no file, or gone."""
    try:
        return Path(path).stat().st_mtime if Path(path).is_file() else 0.0
    except (OSError, ValueError):
        return 0.0


def _read(lines: Mapping[Frame, float]) -> tuple[SourceContext, ...]:
    sources = Sources()
    try:
        return sources.then(lines, time.monotonic() + SECONDS * slowdown())
    finally:
        sources.end()


def _in_backward(places: Sequence[Place], sources: Sequence[SourceContext]) -> Place:
    """Where ranks are whose hooks have started what they wait in: the backward beside the lines of others, if one."""
    ranks = [left_by(0, place, sources, "log") for place in places]
    stacks = {stack for rank in ranks for stack in (*backwards(rank), *_called_backwards(rank))}
    hooked = ELSEWHERE._replace(kind="backward", operation="backward")
    if len({stack[0] for stack in stacks}) != 1:
        return hooked
    stack = next(iter(stacks))
    return hooked._replace(user_frame=stack[0], user_frames=stack)


def _called_backwards(rank: Rank) -> Iterator[tuple[Frame, ...]]:
    """The stacks of a backward in a function that one calls which the rank is in: `train_one_epoch(model, loader)`."""
    for number, frame in enumerate(rank.place.user_frames):
        context = source_at(rank, frame)
        calls = context.gradients if context is not None else ()
        if len(calls) == 1 and calls[0].line != frame.line:
            inner = Frame(calls[0].kind, frame.file, int(calls[0].text))
            yield (inner, replace(frame, line=calls[0].line), *rank.place.user_frames[number + 1 :])
