"""What does a look of `gpudoctor hang` cost the job? The step time of a training loop on gloo, looked at and not.

    python -m tests.bench.hang_overhead [--rounds N] [--ranks N] [--whole]

A job of N ranks (DDP, a small network) trains all the time. Rounds alternate: seconds in which it is left alone, and as
many in which its stacks are read as a look reads them, at the beginning and at the end (`--whole`: in which all of
`gpudoctor hang` runs). Printed is the ratio of the mean step times, its median over the rounds, beside the promise:
within 5%. Nothing is asserted here: with more ranks than cores, or neighbours, the spread says how little it means.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gpudoctor.read import process as processes
from gpudoctor.read.job import stacks

PROMISE = 1.05
SECONDS_OF_A_LOOK = 2.5
JOB = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
layers = [torch.nn.Linear(512, 512) for _ in range(6)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(64, 512)
while True:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(time.monotonic(), flush=True)
"""


class Job:
    """The job, and the moments at which its steps ended."""

    def __init__(self, ranks: int, folder: Path) -> None:
        script = folder / "train.py"
        script.write_text(JOB)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        self.process = subprocess.Popen(
            [*torchrun, str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.steps: list[float] = []
        self._first = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        if not self._first.wait(120.0):
            raise SystemExit("the job does not begin to train")

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.steps.append(float(line))
                self._first.set()

    def ranks(self) -> list[int]:
        return [found.pid for found in processes.descendants(self.process.pid)]

    def mean_step(self, start: float, end: float) -> float:
        within = [step for step in self.steps if start <= step <= end]
        return (within[-1] - within[0]) / (len(within) - 1) if len(within) > 1 else float("nan")

    def end(self) -> None:
        for found in processes.descendants(self.process.pid):
            processes.tell(found, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def look(job: Job, whole: bool) -> None:
    if whole:
        command = [sys.executable, "-m", "gpudoctor", "hang", "--json", "--pid", str(job.process.pid)]
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
        return
    pids = [job.process.pid, *job.ranks()]
    stacks.dump(pids, timeout=5.0)
    time.sleep(SECONDS_OF_A_LOOK)
    stacks.dump(pids, timeout=5.0)


def timed(job: Job, seconds: float, looks: bool, whole: bool) -> tuple[float, float]:
    """Mean step time, and how long it was measured."""
    start = time.monotonic()
    if looks:
        look(job, whole)
    else:
        time.sleep(seconds)
    end = time.monotonic()
    time.sleep(0.1)  # the last lines arrive
    return job.mean_step(start, end), end - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--whole", action="store_true", help="run all of `gpudoctor hang` and not only its stacks")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options.ranks, Path(folder))
        try:
            time.sleep(2.0)
            seconds = timed(job, 0.0, True, options.whole)[1]
            rounds: list[tuple[float, float]] = []
            for number in range(options.rounds):
                order = (False, True) if number % 2 == 0 else (True, False)
                steps = {looks: timed(job, seconds, looks, options.whole)[0] for looks in order}
                rounds.append((steps[False], steps[True]))
        finally:
            job.end()
    alone = [pair[0] * 1e3 for pair in rounds]
    ratios = [looked / left for left, looked in rounds]
    print(f"{options.ranks} ranks, {options.rounds} alternating rounds of {seconds:.1f} s:")
    print(f"  left alone: {statistics.median(alone):.2f} ms a step (from {min(alone):.2f} to {max(alone):.2f})")
    print(
        f"  looked at / left alone: {statistics.median(ratios):.3f} "
        f"(from {min(ratios):.3f} to {max(ratios):.3f}; promised <= {PROMISE})"
    )


if __name__ == "__main__":
    main()
