"""A run as it went: what happened when, what it used, and the steps of each rank."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import msgspec

from gpudoctor.explain.report import Explanation, Line
from gpudoctor.folder.answer import KeptRun, StepsOverTime, TimelineMoment, UseOverTime, ending
from gpudoctor.folder.log_times import LogSeen, RunClock, look, steps_of
from gpudoctor.hang.report import HangReport
from gpudoctor.lazy import lazy_re
from gpudoctor.slow.report import SlowReport

MOST_USE = 16 * 1024 * 1024
MOST_LINES_TOLD = 40
MOST_RANKS_ENDED = 8
MOST_VALUE = 1e18
SILENT_SECONDS, SILENT_PART = 60.0, 10.0
"""A silence that is told: this long, and so many times as long as the usual one (our rule of thumb)."""
SLOW_PART, SLOW_SECONDS = 0.5, 20.0
"""Steps that come half as fast as usual, for so long (our rule of thumb: a validation looks so too)."""
FEWEST_PIECES = 8
OF_NODE = lazy_re(r"/nodes/(?P<host>[^/]+)/[^/]+$")


def use_of(raw: bytes) -> tuple[float | None, list[tuple[float, int]], tuple[UseOverTime, ...]]:
    """Of use.jsonl: when it was begun (seconds since 1970), how much had been said when, and what was used."""
    began: float | None = None
    said: list[tuple[float, int]] = []
    series: dict[tuple[str, Literal["%", "bytes", "cores", "watts"]], list[tuple[float, float]]] = {}

    def put(name: str, unit: Literal["%", "bytes", "cores", "watts"], at: float, value: Any) -> None:
        if isinstance(value, (int, float)) and abs(value) < MOST_VALUE:
            series.setdefault((name, unit), []).append((at, float(value)))

    for line in raw[:MOST_USE].splitlines():
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the last one, of a run that was killed
        if isinstance(entry.get("began"), (int, float)):
            began = float(entry["began"])
        at = entry.get("t")
        if not isinstance(at, (int, float)) or not 0 <= at < MOST_VALUE:
            continue
        at = float(at)
        if isinstance(entry.get("said"), int):
            said.append((at, entry["said"]))
        put("processors", "cores", at, entry.get("cores"))
        put("memory", "bytes", at, entry.get("memory"))
        gpus = entry.get("gpus")
        for gpu in gpus if isinstance(gpus, list) else ():
            if isinstance(gpu, list) and len(gpu) == 4 and isinstance(gpu[0], int):
                for unit, value in zip(("%", "bytes", "watts"), gpu[1:], strict=True):
                    put(f"GPU {gpu[0]}", unit, at, value)  # type: ignore[arg-type]
    return (
        began,
        said,
        tuple(UseOverTime(name=name, unit=unit, points=tuple(points)) for (name, unit), points in series.items()),
    )


class RunCourse(msgspec.Struct, frozen=True):
    moments: tuple[TimelineMoment, ...]
    steps: tuple[StepsOverTime, ...]
    clock: str
    hosts: tuple[str, ...]


def course_of(
    run: KeptRun | None,
    logs: Sequence[str],
    explanation: Explanation | None,
    hangs: Mapping[str, tuple[float, HangReport]],
    said: Sequence[tuple[float, int]],
    year: int,
    slow: Mapping[str, tuple[float, SlowReport]],
) -> RunCourse:
    """`hangs`, `slow`: by file, when it was looked (seconds since 1970) and what was found."""
    told_lines = _told(explanation)
    wanted: dict[str, set[int]] = {path: set() for path in logs}
    for line, _ in told_lines:
        wanted.setdefault(line.file, set()).add(line.line)
    seen = {path: look(path, lines, year) for path, lines in wanted.items()}
    started = run.started if run is not None and run.started else None
    clocks = {
        path: RunClock(started, said if _is_main(path, logs) else (), log_seen) for path, log_seen in seen.items()
    }
    first = min((log_seen.first_stamp for log_seen in seen.values() if log_seen.first_stamp is not None), default=None)
    moments = [*_of_run(run), *_of_hangs(hangs, started), *_of_paces(slow, started), *_silences(said)]
    ends = run.seconds if run is not None and started is not None else None
    before: dict[str, float] = {}
    of_logs: list[TimelineMoment] = []
    for line, is_cause in sorted(told_lines, key=lambda told: -told[0].line):
        place = seen[line.file].places.get(line.line)
        at = _at(clocks[line.file], place.offset, place.stamp, started, first) if place is not None else None
        if at is not None:  # a line that tells no time was written before the next that does, and before the end
            limits = [limit for limit in (before.get(line.file), ends) if limit is not None]
            at = before[line.file] = min(at, *limits) if limits else at
        source = f"{line.file.rpartition('/')[2]}:{line.line}{_on_node(line.file)}"
        of_logs.append(
            TimelineMoment(
                kind="log", text=line.text, seconds=at, source=f"{source}, the cause" if is_cause else source
            )
        )
    timed = {moment.text for moment in of_logs if moment.seconds is not None}
    moments += [moment for moment in reversed(of_logs) if moment.seconds is not None or moment.text not in timed]
    steps = _steps(logs, seen, clocks, started, first)
    silent = [(moment.seconds or 0.0, moment.until or 0.0) for moment in moments if moment.kind == "silence"]
    moments += [moment for moment in _slow(steps) if not any(_covers(span, moment) for span in silent)]
    moments.sort(key=lambda moment: (moment.seconds is None, moment.seconds or 0.0, moment.kind == "end"))
    clock = "the start" if started is not None else "the first time stamp of the logs" if first is not None else ""
    hosts = tuple(sorted({host for log_seen in seen.values() for host in log_seen.hosts}))
    return RunCourse(tuple(moments), steps, clock, hosts)


def _is_main(path: str, logs: Sequence[str]) -> bool:
    """What a run has said is counted of its first stream; what other nodes have sent is not."""
    return not _on_node(path) and (path.endswith("/output.log") or (len(logs) == 1 and path == logs[0]))


def _on_node(path: str) -> str:
    """ " on n2"; empty for what this node has kept."""
    of_node = OF_NODE.search(path)
    return f" on {of_node['host']}" if of_node is not None else ""


def _at(clock: RunClock, offset: int, stamp: float | None, started: float | None, first: float | None) -> float | None:
    if started is None:
        return None if stamp is None or first is None else round(max(0.0, stamp - first), 3)
    return clock.at(offset, stamp)


def _told(explanation: Explanation | None) -> list[tuple[Line, bool]]:
    """Lines that are worth a place in the course, those of the cause marked; each once. A frame's source is none."""
    if explanation is None:
        return []
    first = explanation.causes[0].evidence if explanation.causes else ()
    every = [
        *((line, True) for line in first),
        *((line, False) for line in (*explanation.story, *explanation.consequences, *explanation.trouble)),
    ]
    by_place: dict[tuple[str, int], tuple[Line, bool]] = {}
    for line, is_cause in every:
        if line.line > 0 and any(map(str.isalpha, line.text)) and not line.text.startswith("raise "):
            by_place.setdefault((line.file, line.line), (line, is_cause))
    return list(by_place.values())[:MOST_LINES_TOLD]


def _of_run(run: KeptRun | None) -> Iterator[TimelineMoment]:
    if run is None:
        return
    yield TimelineMoment(kind="start", text="it was started", seconds=0.0, source="run.json")
    if run.status is not None:
        how = "it ended well" if run.status == 0 and run.cause is None else f"it ended with {ending(run)}"
        yield TimelineMoment(kind="end", text=how, seconds=run.seconds, source="run.json")
    for node in run.nodes:
        if node.status is not None and node.seconds is not None:
            how = "ended well" if node.status == 0 else f"ended with {ending(node)}"
            at = node.seconds + (node.started - run.started if node.started and run.started else 0.0)
            yield TimelineMoment(
                kind="end",
                text=f"its part on {node.host} {how}",
                seconds=round(at, 3),
                source=f"run.json on {node.host}",
            )


def seen_of(raw: Mapping[str, Any]) -> Iterator[TimelineMoment]:
    """Of run.json: the signals that the job got, and the ranks that have not ended well."""
    from gpudoctor.active import signal_name

    for each in raw.get("signals") or ():
        if isinstance(each, dict) and isinstance(each.get("number"), int):
            sender = str(each.get("sender") or "")[:60]
            by = " at the terminal" if each.get("by_terminal") else f", sent by {sender}" if sender else ""
            at = each.get("seconds")
            seconds = float(at) if isinstance(at, (int, float)) else None
            yield TimelineMoment(
                kind="signal", text=f"it got {signal_name(each['number'])}{by}", seconds=seconds, source="run.json"
            )
    told = [each for each in raw.get("ended") or () if isinstance(each, dict)]
    ranks = [each for each in told if all(isinstance(each.get(name), int) for name in ("rank", "status"))]
    for each in ranks[:MOST_RANKS_ENDED]:
        status, at = each["status"], each.get("seconds")
        how = f"by {signal_name(-status)}" if status < 0 else f"with exit status {status}"
        seconds = float(at) if isinstance(at, (int, float)) else None
        yield TimelineMoment(kind="end", text=f"rank {each['rank']} ended {how}", seconds=seconds, source="run.json")


def _of_paces(slow: Mapping[str, tuple[float, SlowReport]], started: float | None) -> Iterator[TimelineMoment]:
    """Which rank all others waited for; where several looks say the same of it, the first."""
    before: object = None
    for name, (when, report) in sorted(slow.items(), key=lambda item: item[1][0]):
        late = [ranks for pace in report.paces for ranks in pace.slow]
        same = [(ranks.ranks, ranks.phase, ranks.why) for ranks in late]
        at = round(max(0.0, when - started), 1) if started is not None else None
        for ranks in late if same != before else ():
            yield TimelineMoment(kind="slow", text=ranks.summary, seconds=at, source=name)
        before = same


def _of_hangs(hangs: Mapping[str, tuple[float, HangReport]], started: float | None) -> Iterator[TimelineMoment]:
    for name, (when, report) in hangs.items():
        at = round(max(0.0, when - started), 1) if started is not None and when else None
        for job in report.jobs:
            if job.state == "hung":
                cause = (
                    job.causes[0].summary if job.causes and not job.undecided else job.undecided or "why is not decided"
                )
                yield TimelineMoment(kind="stall", text=f"it stands still: {cause}", seconds=at, source=name)


def _silences(said: Sequence[tuple[float, int]]) -> Iterator[TimelineMoment]:
    """Where nothing was said for long, against what is usual in this run."""
    spoke = [0.0]
    spoke += [at for (_, before), (at, now) in pairwise(said) if now != before]
    if not said:
        return
    gaps = [later - one for one, later in pairwise(spoke)]
    least = max(SILENT_SECONDS, SILENT_PART * median(gaps)) if gaps else SILENT_SECONDS
    for one, later in pairwise([*spoke, said[-1][0]]):
        if later - one >= least:
            yield TimelineMoment(
                kind="silence",
                text=f"nothing was said for {later - one:.0f} s",
                seconds=one,
                until=later,
                source="use.jsonl",
            )


def _steps(
    logs: Sequence[str],
    seen: Mapping[str, LogSeen],
    clocks: Mapping[str, RunClock],
    started: float | None,
    first: float | None,
) -> tuple[StepsOverTime, ...]:
    names = [path for path in logs if path in seen]
    curves = []
    for rank, points in steps_of([seen[name] for name in names]).items():
        timed = [(_at(clocks[names[log]], offset, stamp, started, first), step) for log, offset, stamp, step in points]
        line: list[tuple[float, float]] = []
        for at, step in timed:
            if at is not None and (not line or (at, step) != line[-1]):
                line.append((at, step))
        if len({at for at, _ in line}) > 1:
            curves.append(StepsOverTime(rank=rank, points=tuple(line)))
    return tuple(sorted(curves, key=lambda curve: -1 if curve.rank is None else curve.rank))


def _covers(span: tuple[float, float], moment: TimelineMoment) -> bool:
    """Whether a silence is most of it: then it is told already."""
    begin, end = moment.seconds or 0.0, moment.until or 0.0
    return min(end, span[1]) - max(begin, span[0]) > (end - begin) / 2


def _slow(steps: Sequence[StepsOverTime]) -> Iterator[TimelineMoment]:
    """Stretches in which the steps of the rank that tells most came at half their usual speed or slower."""
    most = max(steps, key=lambda step: len(step.points), default=None)
    if most is None or len(most.points) < FEWEST_PIECES:
        return
    begin, end = most.points[0][0], most.points[-1][0]
    wide = max((end - begin) / 200, SLOW_SECONDS / 2)
    pieces: list[tuple[float, float, float]] = []
    at, step = most.points[0]
    for now, later in most.points[1:]:
        if later < step:  # a new epoch counts from the beginning
            at, step = now, later
        elif now - at >= wide:
            pieces.append((at, now, (later - step) / (now - at)))
            at, step = now, later
    if len(pieces) < FEWEST_PIECES:
        return
    usual = median(speed for *_, speed in pieces)
    slow: list[tuple[float, float, float]] = []
    for one, later, speed in [*pieces, (end, end, usual)]:
        if speed < SLOW_PART * usual:
            slow.append((one, later, speed))
            continue
        if slow and slow[-1][1] - slow[0][0] >= SLOW_SECONDS:
            seconds = slow[-1][1] - slow[0][0]
            speed = sum((to - since) * each for since, to, each in slow) / seconds
            text = f"{speed:.3g} steps a second for {seconds:.0f} s, where {usual:.3g} are usual"
            yield TimelineMoment(kind="slow", text=text, seconds=slow[0][0], until=slow[-1][1], source="the logs")
        slow = []
