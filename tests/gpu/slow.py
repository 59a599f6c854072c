"""Slow jobs on a real GPU, with the real NCCL: `python -m tests.gpu.slow FOLDER [NAME...]` asks `gpudoctor slow`.

All ranks share GPU 0 (tests/lab/slow/job.py, `--gpu`). What must be said was written before any of them was run; an
answer is kept in FOLDER. Times of a GPU that is shared by time slices are no measure of anything but of who is late.
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.lab.slow.__main__ import asked
from tests.lab.slow.jobs import SLEEP, SlowScenario, started

BURNS = """
import torch
while True:
    torch.cuda._sleep(10_000_000)
    torch.cuda.synchronize()
"""


class OnGpu(NamedTuple):
    """A job, and how it is set up beside its own options."""

    scenario: SlowScenario
    timing: bool = False
    """TORCH_NCCL_ENABLE_TIMING, as `gpudoctor slow` advises."""
    shared: bool = False
    """A stranger's process computes on the GPU."""
    status: int = 1


def _planted() -> Iterator[OnGpu]:
    step = ("--gpu", "--step-ms", "4")
    one = (*step, "--ms", "30", "--rank", "1")
    for place, phases, why in (
        ("input", ("input",), ("no-workers",)),
        ("forward", ("forward",), ("host-code",)),
        ("backward", ("backward",), ("host-code",)),
        ("log", ("host code",), ("host-code",)),
    ):
        for item in ((), ("--item",)):
            name = f"{place}{'-item' if item else ''}"
            yield OnGpu(SlowScenario(name, ("--at", place, *one, *item), 1, phases, SLEEP, why, ranks=2))
    # Its CPU is not late, its GPU is: nobody can tell without times of the GPU, and that is to be said.
    gpu = ("--at", "gpu", *one, "--item")
    yield OnGpu(SlowScenario("gpu-untimed", gpu, ranks=2), status=3)
    yield OnGpu(SlowScenario("gpu-timed", gpu, 1, ("GPU", "forward"), "", ("gpu",), ranks=2), timing=True)
    yield OnGpu(SlowScenario("input-timed", ("--at", "input", *one), 1, ("input",), SLEEP, ranks=2), timing=True)
    yield OnGpu(SlowScenario("healthy", (*step, "--item"), ranks=2), status=3)
    yield OnGpu(SlowScenario("healthy-timed", (*step, "--item"), ranks=2), timing=True, status=0)
    yield OnGpu(SlowScenario("healthy-ahead", step, ranks=2), status=3)
    yield OnGpu(SlowScenario("healthy-noise", (*step, "--noise", "5", "--kind", "exponential"), ranks=2), status=3)
    yield OnGpu(SlowScenario("healthy-shared", (*step, "--item"), ranks=2), shared=True, status=3)


JOBS = {each.scenario.name: each for each in _planted()}


@contextlib.contextmanager
def stranger(burns: bool) -> Iterator[None]:
    if not burns:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", BURNS]) as process:
        try:
            yield
        finally:
            process.kill()


def looked_at(job: OnGpu, folder: Path) -> bool:
    scenario, own = job.scenario, folder / job.scenario.name
    own.mkdir(parents=True, exist_ok=True)
    variables = {"NCCL_SOCKET_IFNAME": "lo", "PYTHONPATH": ""}  # what the lab forks cannot use CUDA
    if job.timing:
        variables["TORCH_NCCL_ENABLE_TIMING"] = "1"
    scenario = scenario._replace(variables=tuple(variables.items()))
    with stranger(job.shared), started(scenario, own) as pid:
        row = asked(scenario, pid, folder)
    well = row.status == job.status and not row.wrong_rank
    faults = [
        name for name in ("place", "line", "why") if scenario.rank is not None and not getattr(row, f"{name}_right")
    ]
    print(
        f"{'ok   ' if well and not faults else 'WRONG'} {row.name} [{row.status}] {row.seconds} s: {row.said}", end=""
    )
    print(f"  wrong: {', '.join(faults if well else ['rank', *faults])}" if faults or not well else "", flush=True)
    return well and not faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.slow", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--at-once", type=int, default=1)
    chosen = parser.parse_args()

    def take(name: str) -> bool:
        try:
            return looked_at(JOBS[name], chosen.folder)
        except Exception as error:  # the others go on
            print(f"FAILED {name}: {type(error).__name__}: {error}"[-1500:], flush=True)
            return False

    with ThreadPoolExecutor(chosen.at_once) as pool:
        good = list(pool.map(take, chosen.names or JOBS))
    print(f"{sum(good)} of {len(good)} right")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
