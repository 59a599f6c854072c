"""Planted ends, each run without gpudoctor and then under `gpudoctor run`: `python -m tests.lab.ends [NAME...]`.

    python -m tests.lab.ends --half tune         # one line each, and the sums
    python -m tests.lab.ends --half keep         # the sums alone

Held against the run without: exit status, standard output (of several ranks, whose lines mix as they come, its lines in
order), and what is left behind. Held against what is written in planted.py: the cause, and what must be said of it. A
cause counts as not in the log where `gpudoctor explain` names none of the right ones from what the plain run printed.
Exit status: 1 where status, output or what is left differ, or a wrong cause was named.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from gpudoctor.explain.explain import explain
from gpudoctor.read import process as processes
from gpudoctor.sure import PRIMARY
from tests.lab.ends.planted import PLANTED, Planted
from tests.lab.ends.started import Stage, stage, truly
from tests.lab.hangs.training import MARK, marked
from tests.lab.sshd import user_environment

PATIENCE = 150.0
OURS = re.compile(rb"(?m)^gpudoctor: .*\r?\n")
WHEN = re.compile(rb"(?m)^\[\d{4}-\d\d-\d\d [\d:,]+\]")
"""Before each line of DeepSpeed's."""
LEFT_SECONDS = 8.0
"""For what ends by itself to be gone."""
SIGNALS = {
    "kill rank": signal.SIGKILL,
    "term rank": signal.SIGTERM,
    "usr1 rank": signal.SIGUSR1,
    "kill command": signal.SIGKILL,
    "kill launcher": signal.SIGKILL,
    "term given": signal.SIGTERM,
    "term group": signal.SIGTERM,
    "int group": signal.SIGINT,
    "int twice": signal.SIGINT,
    "hup group": signal.SIGHUP,
}


class Seen(Struct, frozen=True):
    """How one run ended."""

    status: int
    out: bytes
    err: bytes
    left: int
    seconds: float
    causes: tuple[str, ...] = ()
    """By `explain` from what it printed."""
    cause: str = ""
    said: str = ""
    """Our own lines."""
    doctors: int = 0
    """Processes of ours that are left once the job's are gone."""


class Score(Struct, frozen=True):
    """One planted end."""

    name: str
    half: str
    status: bool
    output: bool
    cause: bool
    wrong: bool
    """A cause was named, and it is not the right one."""
    told: bool
    clean: bool
    silent: bool
    detail: str = ""

    @property
    def well(self) -> bool:
        return self.status and self.output and self.clean and not self.wrong


def ran(planted: Planted, at: Stage, *, ours: bool) -> Seen:
    """One run from its start to its end."""
    mark = uuid.uuid4().hex
    ready = at.folder / mark
    ready.mkdir()
    report = at.folder / f"report-{mark}"
    variables = {
        **truly(user_environment()),
        MARK: mark,
        "READY": str(ready),
        "FULL": str(at.full),
        "OMP_NUM_THREADS": "1",
    }
    variables |= {"PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
    options = ["--report", str(report), "--preflight", "none"]
    around = [sys.executable, "-m", "gpudoctor", "run", *options, "--"] if ours else []
    began = time.monotonic()
    with at.started(planted, around, variables) as (process, out, err):
        try:
            if planted.act and planted.act != "nothing":
                _act(planted, at, process, ready, ours=ours)
            status = process.wait(PATIENCE)
        except (TimeoutError, subprocess.TimeoutExpired):
            status = 9999
        seconds = time.monotonic() - began
        left = _left(mark)
        for pid in marked(mark):
            if not _is_ours(pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + LEFT_SECONDS
        while (doctors := [pid for pid in marked(mark) if _is_ours(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in marked(mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    said_out, said_err = out.read_bytes(), err.read_bytes()
    if planted.launcher == "sbatch":
        said_out = OURS.sub(b"", said_out)
        said_err = out.read_bytes()
    seen = Seen(status, said_out, OURS.sub(b"", said_err), left, seconds, doctors=len(doctors))
    if not ours:
        text = at.folder / "plain.log"
        text.write_bytes(said_out + said_err)
        answer = explain([str(text)], stdin=io.BytesIO(), typed=False)
        return _replaced(seen, causes=tuple(each.cause for each in answer.causes if each.confidence >= PRIMARY))
    found: dict[str, object] = {}
    for place in report.glob("*/found.json"):
        with contextlib.suppress(ValueError):
            found = json.loads(place.read_text())
    lines = b"".join(OURS.findall(said_err)).decode(errors="replace")
    return _replaced(seen, cause=str(found.get("cause") or ""), said=lines)


def _replaced(seen: Seen, **more: object) -> Seen:
    import msgspec

    return msgspec.structs.replace(seen, **more)


def _act(planted: Planted, at: Stage, process: "subprocess.Popen[bytes]", ready: Path, *, ours: bool) -> None:
    deadline = time.monotonic() + PATIENCE
    while len([name for name in os.listdir(ready) if name.isdecimal()]) < planted.ranks:  # noqa: PTH208
        if time.monotonic() > deadline or process.poll() is not None:
            raise TimeoutError
        time.sleep(0.02)
    time.sleep(1.5)
    last = int((ready / str(planted.ranks - 1)).read_text())
    if planted.act == "scancel":
        at.scancel()
        return
    number = SIGNALS[planted.act]
    if planted.act.endswith("rank"):
        os.kill(last, number)
    elif planted.act == "kill launcher":
        os.kill(next(iter(processes.ancestors(last))), number)
    elif planted.act == "kill command":
        os.kill(_command(process.pid) if ours else process.pid, number)
    elif planted.act == "term given":
        os.kill(process.pid, number)
    else:
        os.killpg(process.pid, number)
        if planted.act == "int twice":
            time.sleep(0.5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def _command(doctor: int) -> int:
    return next(pid for pid in processes.children_of(doctor) if not _is_ours(pid))


def _is_ours(pid: int) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"gpudoctor" in words and b"/lab/ends/" not in words.partition(b"--\0")[0]
    return False


def _left(mark: str) -> int:
    """Processes of the job that are left a while after its end; ours are counted later."""
    deadline = time.monotonic() + LEFT_SECONDS
    while (found := [pid for pid in marked(mark) if not _is_ours(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(found)


def scored(planted: Planted, plain: Seen, seen: Seen) -> Score:
    """One run beside the other."""
    several = planted.ranks > 1
    written = [WHEN.sub(b"", each.out) for each in (plain, seen)]
    outs = [sorted(out.splitlines()) if several else out for out in written]
    right = seen.cause in planted.causes if planted.causes else not seen.cause
    told = right and bool(re.search(planted.says, seen.said))
    detail = f"status {plain.status} and {seen.status}, left {plain.left} and {seen.left}+{seen.doctors}; "
    detail += f"cause {seen.cause or '-'}; explain alone {','.join(plain.causes) or '-'}; {seen.seconds:.1f} s"
    return Score(
        planted.name,
        planted.half,
        seen.status == plain.status,
        outs[0] == outs[1],
        right,
        bool(seen.cause) and not right,
        told,
        seen.left <= plain.left and not seen.doctors,
        bool(planted.causes) and not set(plain.causes) & set(planted.causes),
        detail,
    )


def sums(scores: list[Score]) -> Iterator[str]:
    """A table by half."""
    yield "| half | ends | status | output | nothing left | cause named | and all that was to be said | wrong cause |"
    yield "|---|---|---|---|---|---|---|---|"
    halves: Mapping[str, list[Score]] = {
        "keep": [each for each in scores if each.half == "keep"],
        "tune": [each for each in scores if each.half == "tune"],
        "not in the log, both": [each for each in scores if each.silent],
        "all": scores,
    }
    for name, rows in halves.items():
        counts = [sum(getattr(row, field) for row in rows) for field in ("status", "output", "clean", "cause", "told")]
        wrong = sum(row.wrong for row in rows)
        yield f"| {name} | {len(rows)} | {' | '.join(map(str, counts))} | {wrong} |"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=["tune", "keep"])
    parser.add_argument("--launcher")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    chosen = [
        each
        for each in PLANTED.values()
        if (not asked.names or each.name in asked.names)
        and asked.half in (None, each.half)
        and asked.launcher in (None, each.launcher)
    ]
    scores: list[Score] = []
    with tempfile.TemporaryDirectory(prefix="ends-") as name, stage(Path(name), chosen) as at:
        for planted in chosen:
            if reason := at.lacks(planted):
                print(f"not run: {planted.name}: {reason}", flush=True)
                continue
            plain, seen = (ran(planted, at, ours=ours) for ours in (False, True))
            scores.append(scored(planted, plain, seen))
            if asked.json:
                asked.json.write_text(json.dumps([{**_fields(each)} for each in scores], indent=1))
            shown = scores[-1]
            if planted.half == "tune":
                marks = " ".join(
                    word if getattr(shown, field) else word.upper()
                    for field, word in {
                        "status": "status",
                        "output": "output",
                        "clean": "clean",
                        "cause": "cause",
                    }.items()
                )
                print(
                    f"{'ok  ' if shown.well and shown.told else 'LOOK'} {shown.name}: {marks}; {shown.detail}",
                    flush=True,
                )
                if not (shown.well and shown.told):
                    print(seen.said, flush=True)
                    if asked.names and not shown.output:
                        print(plain.out, seen.out, seen.err.decode(errors="replace")[-3000:], sep="\n", flush=True)
            for place in at.folder.glob("report-*"):
                if not asked.names:
                    shutil.rmtree(place, ignore_errors=True)
    print("\n".join(sums(scores)))
    return 0 if all(each.well for each in scores) else 1


def _fields(score: Score) -> dict[str, object]:
    fields = {name: getattr(score, name) for name in score.__struct_fields__}
    if score.half == "keep":
        fields["detail"] = ""
    return fields


if __name__ == "__main__":
    sys.exit(main())
