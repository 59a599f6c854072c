"""Reads a folder: what each file is, what it says, and the run that it was written of."""

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from gpudoctor import bounded, cost
from gpudoctor.diagnose import diagnose
from gpudoctor.embedded import json_in
from gpudoctor.envelope import Answer, decode, is_answer
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.fleet.survey import Survey
from gpudoctor.folder.answer import FolderAnswer, FolderFile, KeptRun
from gpudoctor.folder.timeline import course_of, seen_of, use_of
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.report import HangReport
from gpudoctor.nccl.result import TestResult
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.job.recorder_apart import of_folder
from gpudoctor.report import Report
from gpudoctor.run.kept import NAME, NoFolder, state_folder
from gpudoctor.slow.report import SlowReport
from gpudoctor.snapshot import Snapshot, evidence, from_json
from gpudoctor.train.report import TrainReport

RUN, FOUND, USE, EXPLANATION, DUMPS = "run.json", "found.json", "use.jsonl", "explanation.json", "dumps"
NODES = "nodes"
"""The folder of what other nodes have sent, each in one of its name (run/hub_messages.py)."""
MOST_NODES = 1024
OWN = (RUN, FOUND, USE, EXPLANATION, "lock")
"""Of a run: they are told by the answer itself."""
FORMS: tuple[type[Answer], ...] = (Report, Survey, HangReport, SlowReport, TestResult, TrainReport)
ENDINGS = (".json", ".html", ".htm")
LOGS = (".log", ".out", ".err", ".txt")
MOST_FILES = 2000
MOST_ANSWERS = 64
MOST_OWN = 1 << 20
MOST_OF_FOUND = 40
LAST_MOMENT = 4e9
"""Seconds since 1970 that a computer may tell."""


def newest_run() -> str:
    """The folder of the last run of this user. Raises `BadInput`."""
    try:
        root = state_folder(os.environ)
        return str(root / max(path.name for path in root.iterdir() if NAME.fullmatch(path.name)))
    except (NoFolder, OSError, ValueError):
        raise BadInput("which folder: gpudoctor report DIR (no run was kept here)") from None


def answer_of(folder: str) -> tuple[FolderAnswer, dict[str, Snapshot]]:
    """All that the folder tells, and the captures in it. Raises `BadInput`, and `CannotTell` where it tells nothing."""
    place = _of_run(Path(folder))
    try:
        names = sorted(_names(place))
    except NotADirectoryError:
        what = "the folder of a run is wanted; `gpudoctor explain FILE` reads a log, --from FILE a saved answer"
        raise BadInput(f"{folder}: it is a file, and {what}") from None
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror or error}") from None
    parts = _Parts(place)
    for name in names:
        if name.endswith(ENDINGS) and not _is_own(name) and len(parts.files) < MOST_ANSWERS:
            parts.take(name)
    dumped = _dumps(place)
    if dumped is not None and not parts.hangs:
        parts.hangs[DUMPS] = (0.0, dumped)
        parts.files.append(FolderFile(name=DUMPS, kind="flight recorders"))
    logs = [str(place / name) for name in names if _is_log(name)]
    explanation = _explained(logs)
    parts.files += [
        FolderFile(name=_below(place, name), kind="log") for name in (explanation.files if explanation else ())
    ]
    run, raw = _run(place)
    began, said, use = use_of(_contents(place / USE, 16 * MOST_OWN))
    if run is None and not parts.files:
        raise CannotTell(
            f"{folder}: it holds no report of `gpudoctor run`, no log, and nothing that gpudoctor has written"
        )
    shift = began - run.started if began is not None and run is not None and run.started else 0.0
    said = [(at + shift, size) for at, size in said]
    known = run is not None and 0 < run.started < LAST_MOMENT
    year = time.gmtime(run.started if run is not None and known else time.time()).tm_year
    course = course_of(
        run, list(explanation.files) if explanation else [], explanation, parts.hangs, said, year, parts.slow
    )
    moments = tuple(
        sorted(
            (*course.moments, *seen_of(raw)),
            key=lambda moment: (moment.seconds is None, moment.seconds or 0.0, moment.kind == "end"),
        )
    )
    hosts = dict.fromkeys([*_hosts_of(run), *course.hosts, *parts.hosts()])
    answer = FolderAnswer(
        folder=str(place),
        run=run,
        moments=moments,
        clock=course.clock,
        use=tuple(
            replace(curve, points=tuple((round(at + shift, 1), value) for at, value in curve.points)) for curve in use
        ),
        steps=course.steps,
        explanation=_shortened(explanation, place),
        hangs={name: report for name, (_, report) in parts.hangs.items()},
        machines=parts.machines,
        surveys=parts.surveys,
        tests=parts.tests,
        trainings=parts.trainings,
        files=tuple(parts.files),
        hosts=tuple(hosts),
    )
    return answer, parts.captures


def _of_run(place: Path) -> Path:
    """Of a folder that holds runs and is none (`gpudoctor run --report DIR`) the newest run."""
    try:
        runs = [entry for entry in place.iterdir() if NAME.fullmatch(entry.name) and (entry / RUN).is_file()]
    except OSError:
        return place
    return max(runs, key=lambda entry: entry.name) if runs and not (place / RUN).exists() else place


def _names(place: Path) -> Iterator[str]:
    """Files of the folder and of those in it, without hidden ones. Raises `OSError` for the folder itself."""
    next(place.iterdir(), None)
    count = 0
    for here, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != DUMPS)
        for name in sorted(names):
            path = Path(here, name)
            if not name.startswith(".") and path.is_file():
                count += 1
                if count > MOST_FILES:
                    return
                yield str(path.relative_to(place))


def _is_log(name: str) -> bool:
    return name.removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2").endswith(LOGS)


def _is_own(name: str) -> bool:
    """Of a run: told by the answer itself; also of its part on another node."""
    return name in OWN or (name.startswith(f"{NODES}/") and name.endswith(f"/{RUN}"))


def _hosts_of(run: KeptRun | None) -> Iterator[str]:
    if run is not None:
        yield from filter(None, (run.host, *(node.host for node in run.nodes)))


def _nodes(place: Path) -> Iterator[dict[str, Any]]:
    """The parts of other nodes, by what they have sent."""
    try:
        folders = sorted(entry for entry in (place / NODES).iterdir() if entry.is_dir())[:MOST_NODES]
    except OSError:
        return
    for folder in folders:
        raw = _tree(folder / RUN)
        yield {"host": folder.name, **{name: raw[name] for name in ("started", "seconds", "status") if name in raw}}


def _contents(path: Path, most: int) -> bytes:
    try:
        return bounded.contents(str(path), most)
    except bounded.Refused:
        return b""


class _Parts:
    """The answers of a folder, by what they are of."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.files: list[FolderFile] = []
        self.hangs: dict[str, tuple[float, HangReport]] = {}
        self.slow: dict[str, tuple[float, SlowReport]] = {}
        self.machines: dict[str, Report] = {}
        self.surveys: dict[str, Survey] = {}
        self.tests: dict[str, TestResult] = {}
        self.trainings: dict[str, TrainReport] = {}
        self.captures: dict[str, Snapshot] = {}

    def take(self, name: str) -> None:
        """A file that may be one. What it is not is said, and costs nothing else."""
        beside = self._place / f"{name.removesuffix('.json')}-evidence.json"
        if name.endswith(".json") and beside.is_file():
            return  # an answer whose evidence is here
        try:
            raw = json_in(bounded.contents(str(self._place / name), bounded.EVIDENCE.size))
            kind = self._put(name, raw)
        except (bounded.Refused, BadInput) as error:
            kind, words = "", str(error)
            self.files.append(FolderFile(name=name, kind="not read", words=words[:200]))
            return
        self.files.append(FolderFile(name=name, kind=kind))
        cost.progress()

    def _put(self, name: str, raw: bytes) -> str:
        form = next((form for form in FORMS if is_answer(raw, form)), None)
        if form is not None:
            answer = decode(raw, form)
            if isinstance(answer, HangReport):
                self.hangs[name] = (0.0, answer)
            if isinstance(answer, SlowReport):
                self.slow[name] = ((self._place / name).stat().st_mtime, answer)
            for kind, group in (
                (Report, self.machines),
                (Survey, self.surveys),
                (TestResult, self.tests),
                (TrainReport, self.trainings),
            ):
                if isinstance(answer, kind):
                    group[name] = answer  # type: ignore[assignment]
            return f"answer of gpudoctor {answer.command}"
        head = _head(raw)
        if head.get("kind") == evidence.KIND:
            snapshot = evidence.from_json(raw)
            self.hangs[name] = (snapshot.time, conclude(snapshot))
            return "evidence of a job"
        if "command" in head:
            return f"answer of gpudoctor {str(head['command'])[:20]}, which is not shown here"
        machine = from_json(raw)
        self.machines[name], self.captures[name] = _diagnosed(machine), machine
        return "capture of a machine"

    def hosts(self) -> Iterator[str]:
        for _, report in self.hangs.values():
            yield from report.hosts
        for _, slow in self.slow.values():
            yield from slow.hosts
        for survey in self.surveys.values():
            yield from survey.nodes
        for test in self.tests.values():
            yield from test.nodes
        for training in self.trainings.values():
            yield from training.nodes


def _head(raw: bytes) -> dict[str, Any]:
    try:
        tree = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return {name: msgspec.json.decode(tree[name]) for name in ("kind", "command") if name in tree}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"no JSON: {str(error)[:100]}") from None


def _diagnosed(machine: Snapshot) -> Report:
    every, broken = chosen_checks([])
    return replace(diagnose(machine, every, broken, names=[]), machine=machine.host.hostname.value_or("") or None)


def _dumps(place: Path) -> HangReport | None:
    """What the flight recorders say that NCCL has written at the end."""
    if not (place / DUMPS).is_dir():
        return None
    recorders, unread = of_folder(place / DUMPS)
    if not recorders:
        return None
    return conclude(evidence.Evidence(dumps=recorders, unread=unread))


def _explained(logs: list[str]) -> Explanation | None:
    return explain(logs, stdin=io.BytesIO(), typed=False) if logs else None


def _below(place: Path, name: str) -> str:
    return name.removeprefix(f"{place}/")


def _shortened(explanation: Explanation | None, place: Path) -> Explanation | None:
    """With the names that files have in the folder."""
    if explanation is None:
        return None
    tree = msgspec.to_builtins(explanation)

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: _below(place, item) if key == "file" and isinstance(item, str) else short(item)
                for key, item in value.items()
            }
        return [short(item) for item in value] if isinstance(value, (list, tuple)) else value

    shortened = msgspec.convert(short(tree), Explanation)
    return replace(
        shortened,
        files=tuple(_below(place, name) for name in explanation.files),
        unreadable={_below(place, name): why for name, why in explanation.unreadable.items()},
    )


def _run(place: Path) -> tuple[KeptRun | None, dict[str, Any]]:
    """What run.json and found.json tell; both are the run's own, and may be anybody's."""
    raw = _tree(place / RUN)
    if not isinstance(raw.get("command"), list) or "started" not in raw:
        return None, {}
    tree = _tree(place / FOUND)
    lines = tree.get("lines")
    known: dict[str, Any] = {
        name: raw[name] for name in ("command", "folder", "host", "started", "seconds", "status", "lost") if name in raw
    }
    known |= {name: tree[name] for name in ("cause", "confidence", "variant", "restart", "exclude") if name in tree}
    known["nodes"] = list(_nodes(place))
    known |= {"told": lines[:MOST_OF_FOUND]} if isinstance(lines, list) else {}
    try:
        return msgspec.convert(known, KeptRun), raw
    except msgspec.ValidationError:
        return None, {}


def _tree(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_contents(path, MOST_OWN) or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
