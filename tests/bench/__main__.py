"""How fast is the doctor, in ratios that mean the same on any machine.

    python -m tests.bench [--runs N]

Each round runs every command once, so that a noisy neighbour hits all of them alike; printed are medians over the
rounds and their ratios, beside the bounds that the project promises. Nothing is asserted here, and no test asserts
a wall-clock time.
"""

import argparse
import os
import pty
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

PYTHON = sys.executable
PEAK = (
    "import resource, sys; from gpudoctor.cli import run; run({arguments!r}); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)

COMMANDS: Mapping[str, Sequence[str]] = {
    "import torch": [PYTHON, "-c", "import torch"],
    "collect_env": [PYTHON, "-m", "torch.utils.collect_env"],
    "check": [PYTHON, "-m", "gpudoctor", "check"],
    "check --no-torch": [PYTHON, "-m", "gpudoctor", "check", "--no-torch"],
    "--help": [PYTHON, "-m", "gpudoctor", "--help"],
}
PROMISES = (
    ("check", "import torch", 1.15),
    ("check", "collect_env", 0.95),
    ("check --no-torch", "collect_env", 0.25),
)
FIRST_FINDING = re.compile(rb"(?:^|[\n\r]|\x1b\[[\d;]*m)(?:error|warning)\b")
FIRST_SECONDS = 0.3
HELP_CPU_SECONDS = 0.15
PEAK_MEGABYTES = 80


def run(command: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run, descendants included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def first_finding(command: Sequence[str]) -> float:
    """Seconds of wall until a terminal shows the first finding; the whole run where there is none."""
    # what is wrong on every machine, and known before torch is loaded
    environment = {**os.environ, "NCCL_SOCKET_IFNAME": "=nosuch0"}
    master, slave = pty.openpty()
    started = time.perf_counter()
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as child:
        os.close(slave)
        shown, found = b"", 0.0
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # EIO: nobody holds the terminal's other end any more
                break
            shown += piece
            if not found and FIRST_FINDING.search(shown):
                found = time.perf_counter() - started
        child.wait()
    os.close(master)
    return found or time.perf_counter() - started


def peak_megabytes(arguments: Sequence[str]) -> float:
    """Peak resident memory of the doctor's own process, its children not counted."""
    code = PEAK.format(arguments=list(arguments))
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=7)
    runs: int = parser.parse_args().runs
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    wall: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    first: list[float] = []
    for command in COMMANDS.values():  # files into the page cache, bytecode written
        run(command)
    for _ in range(runs):
        for name, command in COMMANDS.items():
            seconds, work = run(command)
            wall[name].append(seconds)
            cpu[name].append(work)
        first.append(first_finding(COMMANDS["check"]))
    print(f"{runs} alternating rounds, medians:")
    for name in COMMANDS:
        spread = max(wall[name]) - min(wall[name])
        print(
            f"  {name:18} {statistics.median(wall[name]):6.3f} s wall (spread {spread:.3f}), "
            f"{statistics.median(cpu[name]):6.3f} s CPU"
        )
    print()
    for name, base, bound in PROMISES:
        ratio = statistics.median(wall[name]) / statistics.median(wall[base])
        print(f"  {name} / {base}: {ratio:.2f} (promised <= {bound})")
    print(f"  first finding of `check` on a terminal: {statistics.median(first):.2f} s (wanted <= {FIRST_SECONDS})")
    print(f"  --help: {statistics.median(cpu['--help']):.3f} s CPU (promised <= {HELP_CPU_SECONDS})")
    print(f"  peak memory of `check`: {peak_megabytes(['check']):.0f} MB (promised < {PEAK_MEGABYTES})")


if __name__ == "__main__":
    main()
