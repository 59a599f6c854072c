"""What a job uses while it runs, written down every few seconds by a child: GPUs, processors, memory, and how much it
has said, from which a report tells when a line of its log was written.

`use.jsonl` of a report: a line that says when it was begun, then a line each time. It is bounded: where there are many
lines every second one is left out and the pause doubles, so a week has as many as an hour. Nobody is spoken to.
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpudoctor import active
from gpudoctor.read import process as processes
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run import relay
from gpudoctor.run.channels import Outlet

NAME = "use.jsonl"
FIRST_SECONDS, EVERY_SECONDS = 1.0, 5.0
MOST_LINES = 720
MOST_PROCESSES = 2048
FAMILY_EVERY = 6
"""Samples between two looks who belongs to the job: it costs more than what they use."""
KEPT = (relay.HEAD, *relay.TAILS)
"""What is kept of the output, in the report's folder."""
PAGE = os.sysconf("SC_PAGESIZE") if hasattr(os, "sysconf") else 4096
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class UseWritten:
    """Of one run: the child that writes it. Where it cannot be started, nothing is written."""

    def __init__(self, pid: int, folder: Path | None, outlets: Sequence[Outlet]) -> None:
        self._child: active.Child | None = None
        if folder is None:
            return
        files = [
            (f"/proc/{os.getpid()}/fd/{outlet.outputs[0]}", outlet.start) for outlet in outlets if outlet.kind == "file"
        ]
        task = json.dumps([pid, str(folder), files])
        with contextlib.suppress(OSError):
            self._child = active.start("use", active.own_module(__name__, task), timeout=float("inf"))

    def end(self) -> None:
        """The command has ended."""
        if self._child is not None:
            self._child.end()
            self._child = None


def main(arguments: list[str]) -> None:
    """The child. It ends when it is killed, or has nowhere to write."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    pid, folder, files = json.loads(arguments[0])
    gpus = _watched_gpus()
    lines = BoundedLines(Path(folder, NAME))
    said, used = SaidSoFar(Path(folder), files), UsedByJob(pid)
    began = time.monotonic()
    head = {"began": round(time.time(), 3), "monotonic": round(began, 3)}
    with contextlib.suppress(OSError):
        lines.write(head)
        pause = FIRST_SECONDS
        while processes.look(pid) is not None:
            time.sleep(pause)
            pause = lines.pause
            line: dict[str, Any] = {"t": round(time.monotonic() - began, 1), "said": said.bytes(), **used.now()}
            if (gpus_use := gpus()) is not None:
                line["gpus"] = gpus_use
            lines.write(line)


class BoundedLines:
    """A file of lines; of its lines behind the first every second one is left out where there are too many."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._lines: list[bytes] = []
        self._file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        self.pause = EVERY_SECONDS

    def write(self, what: dict[str, Any]) -> None:
        self._lines.append(json.dumps(what, separators=(",", ":")).encode() + b"\n")
        if len(self._lines) <= MOST_LINES:
            os.write(self._file, self._lines[-1])
            return
        self._lines = [self._lines[0], *self._lines[2::2]]
        self.pause *= 2
        beside = self._place.with_name(f".{self._place.name}")
        new = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.write(new, b"".join(self._lines))
        beside.replace(self._place)
        os.close(self._file)
        self._file = new


class SaidSoFar:
    """How many bytes the command has said: of what it writes into a file itself, else of what is kept."""

    def __init__(self, folder: Path, files: Sequence[tuple[str, int]]) -> None:
        self._folder, self._files = folder, files
        self._sizes = dict.fromkeys(KEPT, 0)
        self._total = 0

    def bytes(self) -> int:
        if self._files:
            path, start = self._files[0]
            with contextlib.suppress(OSError):
                self._total = max(0, os.stat(path).st_size - start)  # noqa: PTH116 - of a descriptor of another process
            return self._total
        for name, before in self._sizes.items():
            try:
                size = (self._folder / name).stat().st_size
            except OSError:
                continue
            self._total += size - before if size >= before else size  # one of the tails has begun anew
            self._sizes[name] = size
        return self._total


class UsedByJob:
    """Processors and memory of the job's processes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids: tuple[int, ...] = (pid,)
        self._count = 0
        self._ticks: dict[int, int] = {}
        self._at = 0.0

    def now(self) -> dict[str, Any]:
        if self._count % FAMILY_EVERY == 0:
            family = (descendant.pid for descendant in processes.descendants(self._pid))
            self._pids = (self._pid, *family)[:MOST_PROCESSES]
        self._count += 1
        ticks, pages, at = {}, 0, time.monotonic()
        for pid in self._pids:
            process = processes.look(pid)
            if process is None:
                continue
            ticks[pid] = process.cpu_ticks
            with contextlib.suppress(OSError, ValueError, IndexError):
                _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
                pages += max(0, int(resident) - int(shared))
        spent = sum(ticks[pid] - self._ticks[pid] for pid in ticks.keys() & self._ticks.keys())
        used: dict[str, Any] = {"memory": pages * PAGE, "processes": len(ticks)}
        if self._ticks:
            used["cores"] = round(spent / TICKS / max(at - self._at, 0.001), 2)
        self._ticks, self._at = ticks, at
        return used


def _watched_gpus() -> Callable[[], list[list[float | None]] | None]:
    """What gives [index, use in percent, bytes of memory, watts] of each GPU; None where nothing is known (yet).

    NVML may hang: it is asked by a thread, and what it has not told for long is not told.
    """
    from gpudoctor.read.driver_traces import may_have_nvml

    if not may_have_nvml():
        return lambda: None
    latest: list[list[list[float | None]]] = []
    asked_at = [0.0]

    def ask() -> None:
        from gpudoctor.read.nvml_use import watched

        for sample in watched(EVERY_SECONDS):
            latest[:], asked_at[0] = [sample], time.monotonic()

    threading.Thread(target=ask, daemon=True).start()
    return lambda: latest[0] if latest and time.monotonic() - asked_at[0] < 2 * EVERY_SECONDS else None
