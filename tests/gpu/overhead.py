"""Step time on a real GPU by itself and under `gpudoctor run`, in turn: `python -m tests.gpu.overhead [--pairs 6]`.

One rank of tests/lab/slow/job.py, `--gpu`, 4 ms of work for the GPU a step, which it waits for. Nothing is asserted.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

from tests.lab.slow.jobs import SCRIPT
from tests.lab.sshd import user_environment


def seconds_a_step(run: bool, steps: int) -> float:
    """From the first step's line to the last."""
    with tempfile.TemporaryDirectory() as folder:
        ours = ["-m", "gpudoctor", "run", "--preflight", "none", "--quiet", "--report", folder, "--", sys.executable]
        job = [str(SCRIPT), "--gpu", "--item", "--step-ms", "4", "--steps", str(steps)]
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611", "RANK": "0", "LOCAL_RANK": "0"}
        environment = user_environment() | variables | {"WORLD_SIZE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        words = [sys.executable, *(ours if run else []), *job]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder) as process:
            assert process.stdout is not None
            at = [time.perf_counter() for line in process.stdout if line.startswith("rank 0")]
        if process.returncode or len(at) != 2:
            raise RuntimeError(f"exit status {process.returncode}, {len(at)} lines")
    return (at[1] - at[0]) / (steps - 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1200)
    given = parser.parse_args()
    ratios = []
    for pair in range(given.pairs):
        first = pair % 2 == 1
        times = {run: seconds_a_step(run, given.steps) for run in (first, not first)}
        ratios.append(times[True] / times[False])
        print(f"{times[False] * 1e3:.3f} ms by itself, {times[True] * 1e3:.3f} under run: {ratios[-1]:.4f}", flush=True)
    print(f"median {statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}")


if __name__ == "__main__":
    main()
