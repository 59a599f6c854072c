"""What does `gpudoctor run` cost? Start, processor and memory while the job runs, step time, the end.

    python -m tests.bench.run [--rounds N] [--seconds S] [--pairs N]

Alternating rounds of the same command with and without it. Start: from the moment in which a shell would start the
command to the command's first line. Processor and memory: of all our processes, while a job prints a line every 50 ms.
Step time: a training loop on one CPU that prints each step. Nothing is asserted here.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpudoctor.read import process as processes

TALKS = "import time\nwhile True:\n    print('step', time.time(), flush=True)\n    time.sleep(0.05)\n"
TRAINS = """
import time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(64, 512)
steps = []
for step in range(150):
    began = time.perf_counter()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    print("step", step, flush=True)
    steps.append(time.perf_counter() - began)
steps.sort()
print("median", steps[len(steps) // 2], flush=True)
"""


def words(*command: str, preflight: str = "none") -> list[str]:
    return [sys.executable, "-m", "gpudoctor", "run", "-q", "--preflight", preflight, "--", *command]


def first_line(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until the command is there, until all is over, and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    ended = time.time()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(done.stdout.replace(",", ".")) - began, ended - began, processor


def spent(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes that are its own, and its share of the others'."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def while_it_runs(seconds: float, environment: dict[str, str]) -> tuple[float, float]:
    """Share of a core, and bytes, of all our processes."""
    reading, writing = os.pipe()
    process = subprocess.Popen(words(sys.executable, "-c", TALKS), env=environment, stdout=writing)
    os.close(writing)
    drain = subprocess.Popen(["cat"], stdin=reading, stdout=subprocess.DEVNULL)
    os.close(reading)
    time.sleep(6.0)
    ours = [process.pid, *(child for child in processes.children_of(process.pid) if is_ours(child))]
    before = sum(map(spent, ours))
    time.sleep(seconds)
    after = sum(map(spent, ours))
    memory = sum(map(resident, ours))
    process.terminate()
    process.wait()
    drain.wait()
    return (after - before) / seconds, memory


def is_ours(pid: int) -> bool:
    return b"gpudoctor" in Path(f"/proc/{pid}/cmdline").read_bytes()


def median_step(command: list[str], environment: dict[str, str]) -> float:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_STATE_HOME": folder, "LC_ALL": "C"}
        says = ["bash", "-c", "echo $EPOCHREALTIME"]
        plain, ours = [], []
        for _ in range(asked.rounds):
            plain.append(first_line(says, environment))
            ours.append(first_line(words(*says), environment))
        for number, what in enumerate(("until the command is there", "until all is over", "processor time")):
            without, with_us = (statistics.median(each[number] for each in found) for found in (plain, ours))
            spread = max(each[number] for each in ours) - min(each[number] for each in ours)
            print(f"{what}: {with_us - without:.3f} s more ({without:.3f} s without; spread {spread:.3f} s)")
        share, memory = while_it_runs(asked.seconds, environment)
        print(f"while it runs: {100 * share:.2f}% of a core, {memory / 2**20:.0f} MB")
        script = Path(folder, "train.py")
        script.write_text(TRAINS)
        ratios = []
        for number in range(asked.pairs):
            pair = [[sys.executable, str(script)], words(sys.executable, str(script))]
            steps = [median_step(each, environment) for each in (pair if number % 2 else pair[::-1])]
            first, second = steps if number % 2 else steps[::-1]
            ratios.append(second / first)
        low, high = statistics.quantiles(ratios, n=10)[0], statistics.quantiles(ratios, n=10)[-1]
        print(f"step time: {statistics.median(ratios):.3f} times (10th to 90th percentile {low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
