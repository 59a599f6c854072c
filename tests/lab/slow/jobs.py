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

SCRIPT, PROGRAMS, LATER = (Path(__file__).parent / name for name in ("job.py", "programs.py", "later_programs.py"))
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
    """The line of job.py that is to be named begins with this, or ends with it (`# NAME`); empty: any, or none."""
    why: tuple[str, ...] = ()
    """Which reasons are right; (): any."""
    ranks: int = 4
    cpus: float = 0.0
    """Quota of the slow rank's cgroup; 0: none."""
    read_ms: float = 0.0
    """Each read of what it is given to read takes so long; 0: it is a file on this disk."""
    read_bytes: int = 0
    """Bytes a second that the slow rank's cgroup may read; 0: all."""
    script: Path = SCRIPT
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def half(self) -> str:
        return "keep" if hashlib.sha256(self.name.encode()).digest()[0] & 1 else "tune"

    def numbers(self) -> tuple[int, ...]:
        lines = enumerate(self.script.read_text().splitlines(), start=1)
        is_it = str.endswith if self.line.startswith("# ") else str.startswith
        return tuple(number for number, text in lines if self.line and is_it(text.strip(), self.line))


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


HOST, READS = ("host code",), ("storage", "input", "host code")


def _program(
    name: str,
    rank: int,
    size: str,
    phases: tuple[str, ...] = (),
    why: tuple[str, ...] = (),
    *,
    lined: bool = True,
    ms: float = 20.0,
    late: int | None = None,
) -> SlowScenario:
    """`late`: which rank of the program delays; None: that which is to be named."""
    step = STEPS[f"20-in-{size}"][1]
    words = (name, str(rank if late is None else late), str(ms), str(step))
    return SlowScenario(
        f"{name}-in-{size}", words, rank, phases, f"# {name}" if lined else "", why, script=PROGRAMS
    )  # fmt: skip


def _of_programs() -> Iterator[SlowScenario]:
    """Of programs.py: written and labelled before any of them was run (2026-11-27)."""
    yield _program("by_hand", 2, "15", (*HOST, "forward"), ("host-code",))
    yield _program("streamed", 1, "200", ("input",), ("few-workers",), lined=False, ms=65.0)
    yield _program("hooked", 3, "15", ("backward",), ("host-code",))
    yield _program("accumulates", 0, "200", (*HOST, "optimizer"), ("host-code",))
    yield _program("writes_metrics", 0, "15", HOST, ("host-code",))
    yield _program("gathers_objects", 3, "200", HOST, ("host-code",))
    yield _program("prefetches", 2, "200", ("input", *HOST), ms=45.0)
    yield _program("reads_records", 1, "15", READS, ("storage",))._replace(read_ms=20.0)
    yield _program("collated", 2, "200", ("input",), ("no-workers",))
    read = _program("collated", 0, "200", ("input", "storage"), ("storage",), lined=False)
    yield read._replace(name="collated-of-a-file", read_ms=10.0)
    yield _program("decodes", 1, "15", (), ("cpu-quota",), lined=False, ms=8.0, late=-2)._replace(cpus=0.2, ranks=2)
    yield _program("in_a_module", 2, "200", ("forward",), ("host-code",))
    yield _program("recomputed", 1, "15", ("backward",), ("host-code",))
    yield _program("own_optimizer", 3, "15", ("optimizer", *HOST), ("host-code",))
    yield _program("awaits", 1, "15", HOST, ("host-code",))
    yield _program("collects_garbage", 2, "15", HOST, ("host-code",))
    for name, step in (
        *(("workers", "13"), ("accumulates", "60"), ("awaits", "13"), ("lengths", "13")),
        *(("fsync", "13"), ("in_turn", "13"), ("garbage", "198")),
    ):
        yield SlowScenario(f"healthy_{name}", (f"healthy_{name}", "-1", "0", step), script=PROGRAMS)
    yield SlowScenario("healthy_decodes", ("decodes", "-2", "4", "13"), script=PROGRAMS)
    words = ("reads_records", "-2", "20", "13")
    yield SlowScenario("healthy_reads_records", words, read_ms=20.0, script=PROGRAMS)


def _of_later_programs() -> Iterator[SlowScenario]:
    """Of later_programs.py: written and labelled before any of them was run (2026-11-27)."""
    for slow in (
        _program("tokenizes", 1, "15", ("input",), ("no-workers",)),
        _program("ranks_scores", 0, "200", HOST, ("host-code",)),
        _program("clips_each", 2, "15", (*HOST, "optimizer"), ("host-code",)),
        _program("profiled", 1, "200", HOST, ("host-code",), lined=False)._replace(ranks=2),
        _program("logs", 0, "200", HOST, ("host-code",)),
        _program("locked", 2, "15", HOST, ("host-code",)),
        _program("saves", 0, "15", (*HOST, "storage"), ("host-code", "storage"), ms=200.0),
        _program("augments", 3, "200", ("input",), ("few-workers",), lined=False, ms=65.0),
        _program("buckets", 1, "200", ("input",), ("host-code",)),
        _program("compresses", 2, "15", ("backward",), ("host-code",)),
    ):
        yield slow._replace(script=LATER)
    for name, late, ms, step in (
        *(("tokenizes", -2, 8, 13), ("profiled", -2, 3, 60), ("locked", -2, 4, 13), ("saves", -2, 60, 13)),
        *(("evaluates", -1, 0, 13), ("logs", 0, 0.5, 60)),  # half a millisecond of 60 is no loss to speak of
    ):
        yield SlowScenario(f"healthy_{name}", (f"healthy_{name}", str(late), str(ms), str(step)), script=LATER)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (*_planted(), *_of_storage(), *_healthy(), *_of_programs(), *_of_later_programs())
}


@contextlib.contextmanager
def started(scenario: SlowScenario, folder: Path, *, arm: bool = True, seconds: float = RUNS_SECONDS) -> Iterator[int]:
    """The job, `seconds` after its first step; the pid of a rank. All that it has started ends with the block."""
    mark = uuid.uuid4().hex
    log = folder / f"{scenario.name}.log"
    variables = user_environment() | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", MARK: mark}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(scenario.ranks)}
    variables |= dict(scenario.variables)
    if arm:
        variables |= {"PYTHONPATH": f"{SITE}:{variables.get('PYTHONPATH', '')}".rstrip(":")}
    processes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        options = [*scenario.options]
        if scenario.read_ms:
            slow_file = str(stack.enter_context(slow_files(folder / mark[:8], scenario.read_ms)))
            options += [slow_file] if scenario.script == PROGRAMS else ["--file", slow_file]
        elif scenario.read_bytes:
            data = folder / "data"
            data.write_bytes(os.urandom(16 << 20))
            options += ["--file", str(data)]
        groups = stack.enter_context(contextlib.ExitStack())  # removed once nothing is in them
        stack.callback(end, mark, processes)
        for rank in range(scenario.ranks):
            words = [sys.executable, str(scenario.script), *options]
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
