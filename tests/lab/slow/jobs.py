"""Jobs of `job.py`: what is slow in each, written down before anything looked at one.

    with started(SCENARIOS["input-20-in-15"], folder) as pid:       # armed, as `gpudoctor run` does it
        ...

tune and keep: by the hash of the name, as in tests/lab/hangs.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.run.arming import SITE
from tests.lab.hangs.training import MARK, end, free_port
from tests.lab.slow.slow_files import read_limit, slow_files
from tests.lab.sshd import user_environment, wait_until

SCRIPT = Path(__file__).parent / "job.py"
RUNS_SECONDS = 8.0
"""From the first step on, before it is looked at."""
PATIENCE = 180.0


class SlowScenario(NamedTuple):
    """A job and what is to be said of it."""

    name: str
    options: tuple[str, ...]
    rank: int | None = None
    """The slow one; None: nobody may be named."""
    phases: tuple[str, ...] = ()
    """What its place may be called."""
    line: str = ""
    """The line of job.py that is to be named begins with this; empty: any, or none."""
    why: tuple[str, ...] = ()
    """Which reasons are right; (): any."""
    ranks: int = 4
    cpus: float = 0.0
    """Quota of the slow rank's cgroup; 0: none."""
    read_ms: float = 0.0
    """Each read of what it is given to read takes so long; 0: it is a file on this disk."""
    read_bytes: int = 0
    """Bytes a second that the slow rank's cgroup may read; 0: all."""

    @property
    def half(self) -> str:
        return "keep" if hashlib.sha256(self.name.encode()).digest()[0] & 1 else "tune"

    def numbers(self) -> tuple[int, ...]:
        lines = enumerate(SCRIPT.read_text().splitlines(), start=1)
        return tuple(number for number, text in lines if self.line and text.strip().startswith(self.line))


SLEEP = "time.sleep(given.ms / 1000)"
PLACES = {
    "input": (("input",), ("no-workers",)),
    "forward": (("forward",), ("host-code",)),
    "backward": (("backward",), ("host-code",)),
    "collective": (("host code",), ("host-code",)),
    "log": (("host code",), ("host-code",)),
}
STEPS = {"20-in-15": (20.0, 13.0), "20-in-200": (20.0, 198.0)}
"""Milliseconds of the delay, and of the sleep that stands for the step's work."""


def _planted() -> Iterator[SlowScenario]:
    for place, (phases, why) in PLACES.items():
        for number, (size, (delay, step)) in enumerate(STEPS.items()):
            rank = 0 if place == "log" else (len(place) + number) % 4
            words = ("--at", place, "--rank", str(rank), "--ms", str(delay), "--step-ms", str(step))
            yield SlowScenario(f"{place}-{size}", words, rank, phases, SLEEP, why)
    one = ("--ms", "20", "--step-ms", "13")
    yield SlowScenario("two-ranks", ("--at", "forward", "--rank", "1", *one), 1, ("forward",), SLEEP, ranks=2)
    yield SlowScenario("eight-ranks", ("--at", "input", "--rank", "6", *one), 6, ("input",), SLEEP, ranks=8)
    noisy = ("--ms", "20", "--step-ms", "5", "--noise", "5", "--kind", "exponential")
    yield SlowScenario("forward-in-noise", ("--at", "forward", "--rank", "3", *noisy), 3, ("forward",), SLEEP)
    slower = ("--at", "worker", "--rank", "2", "--workers", "1", "--ms", "80", "--step-ms", "13")
    yield SlowScenario("worker-80-in-15", slower, 2, ("input",), why=("few-workers",))
    every = ("--ms", "200", "--step-ms", "13", "--every", "10")
    yield SlowScenario("log-each-tenth", ("--at", "log", "--rank", "0", *every), 0, ("host code",), SLEEP)
    burns = ("--at", "collective", "--burn", "--ms", "6", "--step-ms", "13", "--rank", "-2")  # all of them
    yield SlowScenario("quota", burns, 1, why=("cpu-quota",), cpus=0.1)
    yield SlowScenario("quota-of-two", burns, 1, why=("cpu-quota",), cpus=0.1, ranks=2)


def _of_storage() -> Iterator[SlowScenario]:
    """The slow rank reads from slow files; in the last one all ranks do."""
    at = ("--at", "storage", "--step-ms")
    yield SlowScenario("fuse-20-in-15", (*at, "13", "--rank", "1"), 1, ("input",), why=("storage",), read_ms=20.0)
    yield SlowScenario("fuse-20-in-200", (*at, "198", "--rank", "2"), 2, ("input",), why=("storage",), read_ms=20.0)
    worker = (*at, "13", "--rank", "3", "--workers", "1")
    yield SlowScenario("fuse-80-in-worker", worker, 3, ("input",), why=("storage",), read_ms=80.0)
    words = (*at, "13", "--rank", "1")
    yield SlowScenario("limit-1-megabyte", words, 1, ("input",), why=("storage",), read_bytes=1 << 20)
    yield SlowScenario("limit-of-two", words, 1, ("input",), why=("storage",), read_bytes=1 << 20, ranks=2)
    yield SlowScenario("healthy-fuse-of-all", (*at, "13", "--rank", "-2"), read_ms=20.0)


def _healthy() -> Iterator[SlowScenario]:
    for kind, noise in (("even", 0.0), ("uniform", 5.0), ("exponential", 5.0), ("rare", 1.0), ("pause", 5.0)):
        for step in (13.0, 60.0):
            words = ("--step-ms", str(step), "--noise", str(noise), "--kind", kind)
            yield SlowScenario(f"healthy-{kind}-{step:g}", words)
            yield SlowScenario(f"healthy-{kind}-{step:g}-of-two", words, ranks=2)


SCENARIOS = {scenario.name: scenario for scenario in (*_planted(), *_of_storage(), *_healthy())}


@contextlib.contextmanager
def started(scenario: SlowScenario, folder: Path, *, arm: bool = True, seconds: float = RUNS_SECONDS) -> Iterator[int]:
    """The job, `seconds` after its first step; the pid of a rank. All that it has started ends with the block."""
    mark = uuid.uuid4().hex
    log = folder / f"{scenario.name}.log"
    variables = user_environment() | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", MARK: mark}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(scenario.ranks)}
    if arm:
        variables |= {"PYTHONPATH": f"{SITE}:{variables.get('PYTHONPATH', '')}".rstrip(":")}
    processes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        options = [*scenario.options]
        if scenario.read_ms:
            options += ["--file", str(stack.enter_context(slow_files(folder / mark[:8], scenario.read_ms)))]
        elif scenario.read_bytes:
            data = folder / "data"
            data.write_bytes(os.urandom(16 << 20))
            options += ["--file", str(data)]
        groups = stack.enter_context(contextlib.ExitStack())  # removed once nothing is in them
        stack.callback(end, mark, processes)
        for rank in range(scenario.ranks):
            words = [sys.executable, str(SCRIPT), *options]
            if (scenario.cpus or scenario.read_bytes) and rank == scenario.rank:
                group = groups.enter_context(
                    cpu_group(mark, scenario.cpus)
                    if scenario.cpus
                    else read_limit(mark[:8], folder, scenario.read_bytes)
                )
                words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words]
            own = variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(words, env=own, stdout=output, stderr=output, cwd=folder))

        def running() -> bool:
            if any(process.poll() is not None for process in processes):
                raise RuntimeError(f"the job has ended: {log.read_text(errors='replace')[-2000:]}")
            text = log.read_text(errors="replace")
            return all(f"rank {rank} step 1" in text for rank in range(scenario.ranks))

        wait_until(running, PATIENCE)
        time.sleep(seconds)
        yield processes[0].pid


@contextlib.contextmanager
def cpu_group(name: str, cpus: float) -> Iterator[Path]:
    """A cgroup (v1 or v2) that grants so much of a processor. Raises `OSError` where none can be made."""
    first = Path("/sys/fs/cgroup/cpu")
    folder = (first if first.is_dir() else Path("/sys/fs/cgroup")) / f"gpudoctor-lab-{name}"
    folder.mkdir()
    try:
        quota = round(cpus * 100_000)
        if first.is_dir():
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} 100000")
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
