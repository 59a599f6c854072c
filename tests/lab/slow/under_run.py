"""`python -m tests.lab.slow.under_run [NAME...]`: what makes a job slow from outside, under `gpudoctor run`.

Each of three hosts of the lab has one rank of `job.py` under its own torchrun and its own doctor; the doctors know each
other. What must be said was written before any was run: `names` and `host` for who is slow and why, nobody for healthy
jobs and for clocks that are merely wrong. One line each, and the sums.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lab.ends.started import truly
from tests.lab.hangs.training import MARK, end
from tests.lab.hosts import Host, hosts, in_namespace
from tests.lab.slow.jobs import SCRIPT
from tests.lab.slow.slow_files import read_limit
from tests.lab.sshd import user_environment

NAMES = ("n1", "n2", "n3")
WATCHED = 170.0
"""Seconds from the first step on: the first look comes after 30 s, its samples take at most a minute, and on a crowded
machine each order to three nodes takes ten seconds."""
PATIENCE = 300.0
READ = 64 << 10
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
static long ahead(void) {
    static __thread long seconds;
    static __thread time_t asked;
    struct timespec now;
    real(CLOCK_MONOTONIC, &now);
    if (now.tv_sec != asked) {
        asked = now.tv_sec;
        FILE *file = fopen(getenv("LAB_CLOCK"), "r");
        if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    }
    return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (!status && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += ahead();
    return status;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""A machine's clock that is wrong, and may jump: libfaketime's breaks time.sleep."""
NAMED = re.compile(r"gpudoctor: (?P<summary>.*)  \[straggler\]")
NO_START = "the job does not start: "
LATER = 45.0
"""Seconds after the first step at which a clock jumps: between the first look and the second."""


class Outside(NamedTuple):
    """One job, what is done around it, and what must be said."""

    name: str
    options: tuple[str, ...] = ("--step-ms", "13")
    rate: str = ""
    """At which the host `on` may send, in tc's words (a token bucket: what there is without netem)."""
    loses: bool = False
    """Of what comes to the host `on`, each twentieth packet."""
    on: str = ""
    clock: str = ""
    """Seconds by which that of the host `on` is ahead, for all that runs there."""
    jumps: str = ""
    storage: int = 0
    """Bytes a second that the host `on` may read."""
    host: str = ""
    """That must be named; empty: nobody may be."""
    names: str = ""
    """What must stand in the same sentence (a regular expression)."""


LINK = r"network|link|connection"
OUTSIDE = {
    each.name: each
    for each in (
        Outside("two-megabits", rate="2mbit", on="n2", host="n2", names=LINK),
        Outside("six-megabits", rate="6mbit", on="n3", host="n3", names=LINK),
        Outside("loses-5-percent", loses=True, on="n2", host="n2", names=LINK),
        Outside(
            "late-rank", ("--at", "forward", "--rank", "2", "--ms", "20", "--step-ms", "13"), host="n3", names="rank 2"
        ),
        Outside("healthy"),
        Outside("healthy-noise", ("--step-ms", "13", "--noise", "5", "--kind", "exponential")),
        Outside("clock-2-s-ahead", clock="2", on="n2"),
        Outside(
            "clock-2-s-ahead-and-a-late-rank",
            ("--at", "forward", "--rank", "2", "--ms", "20", "--step-ms", "13"),
            clock="2", on="n2", host="n3", names="rank 2",
        ),
        Outside("clock-jumps-an-hour", clock="0", jumps="3600", on="n2"),
        Outside("clock-jumps-back", clock="0", jumps="-600", on="n3"),
        Outside(  # 62 ms for each read: of 3 MB/s 21 ms, a step of 25 ms asks for less
            "storage-of-1-megabyte", ("--at", "storage", "--rank", "1", "--step-ms", "13"), storage=1 << 20, on="n2",
            host="n2", names="storage",
        ),
        Outside(  # also where a step takes 100 ms, as on a crowded machine, less than each of its reads
            "storage-of-300-kilobytes", ("--at", "storage", "--rank", "1", "--step-ms", "13"), storage=300 << 10,
            on="n2", host="n2", names="storage",
        ),
    )
}  # fmt: skip


@contextlib.contextmanager
def throttled(outside: Outside, folder: Path) -> Iterator[tuple[str, ...]]:
    """Words around what may read so little, and what the job is told of its file."""
    if not outside.storage:
        yield ()
        return
    with read_limit(f"{os.getpid()}-{uuid.uuid4().hex[:6]}", folder, outside.storage) as group:
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")


def looked(outside: Outside, machines: tuple[Host, ...], folder: Path) -> str:
    """All that our doctors have said, each line with its host."""
    mark = uuid.uuid4().hex
    data, clock = folder / "data", folder / "clock"
    options = list(outside.options)
    if outside.storage:
        data.write_bytes(os.urandom(256 * READ))
        options += ["--file", str(data)]
    if outside.clock:
        clock.write_text(f"{outside.clock}\n")
        (folder / "clock.c").write_text(CLOCK)
        words = ["gcc", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c"), "-ldl"]
        subprocess.run(words, check=True)
    processes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        slower = stack.enter_context(throttled(outside, folder))
        stack.callback(end, mark, processes)
        for number, machine in enumerate(machines):
            is_it = machine.name == outside.on
            if is_it and outside.rate:
                bucket = ("tbf", "rate", outside.rate, "burst", "16kb", "latency", "400ms")
                in_namespace(machine.namespace, "tc", "qdisc", "add", "dev", "eth0", "root", *bucket)
            if is_it and outside.loses:
                machine.filter("numgen random mod 20 == 0 drop")
            ours = (sys.executable, "-m", "gpudoctor", "run", "--preflight", "none", "--stall", "20", "--")
            torchrun = (sys.executable, "-m", "torch.distributed.run", "--nnodes=3", "--nproc-per-node=1")
            where = (f"--node-rank={number}", "--master-addr=10.0.0.1", "--master-port=29511", str(SCRIPT), *options)
            alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
            faked = {"LD_PRELOAD": str(folder / "clock.so"), "LAB_CLOCK": str(clock)}
            variables = {
                **truly(user_environment()),
                **(faked if is_it and outside.clock else {}),
                "XDG_STATE_HOME": str(folder / machine.name),
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
                "GPUDOCTOR_TOKEN": "of this lab",
                MARK: mark,
            }
            with (folder / f"said-{machine.name}").open("wb") as said:
                processes.append(
                    subprocess.Popen(
                        [*(slower if is_it else ()), *machine.command(*alone, *ours, *torchrun, *where)],
                        env=variables, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                    )
                )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not all(" step 1" in (folder / f"said-{name}").read_text(errors="replace") for name in NAMES):
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                return NO_START + "".join(
                    (folder / f"said-{name}").read_text(errors="replace")[-1500:] for name in NAMES
                )
            time.sleep(0.2)
        until, jump_at = time.monotonic() + WATCHED, time.monotonic() + LATER
        while time.monotonic() < until and not NAMED.search(_ours(folder)):
            time.sleep(0.2)
            if outside.jumps and time.monotonic() > jump_at:
                clock.write_text(f"{outside.jumps}\n")
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
    return _ours(folder)


def _ours(folder: Path) -> str:
    return "".join(
        f"{name}: {line}"
        for name in NAMES
        for line in (folder / f"said-{name}").open(errors="replace")
        if line.startswith("gpudoctor:")
    )


def judged(outside: Outside, said: str) -> tuple[bool, bool]:
    """Whether what was to be said was said; whether somebody was named who is not slow, or a job called a stall."""
    sentences = [match["summary"] for match in NAMED.finditer(said)]
    right = [each for each in sentences if outside.host and re.search(rf"\b{outside.host}\b", each)]
    right = [each for each in right if re.search(outside.names, each)]
    wrong = len(right) < len(sentences) or "stands still" in said
    return (bool(right) if outside.host else not wrong and NO_START not in said), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all-said", action="store_true")
    given = parser.parse_args()
    rows = []
    for outside in [OUTSIDE[name] for name in given.names] or OUTSIDE.values():
        folder = Path(tempfile.mkdtemp(prefix="slow-under-run-"))
        try:
            with hosts(*NAMES) as machines:
                said = looked(outside, machines, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        right, wrong = judged(outside, said)
        rows.append((right, wrong))
        print(f"{'ok ' if right else 'BAD'} {'WRONG ' if wrong else ''}{outside.name}", flush=True)
        if given.all_said or not right or outside.host:
            print(said, flush=True)
    print(f"{len(rows)} jobs: right {sum(right for right, _ in rows)}, wrong {sum(wrong for _, wrong in rows)}")
    return int(not all(right for right, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
