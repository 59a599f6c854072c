"""Step time under `gpudoctor run`, told to a part of a hundred: `python -m tests.bench.step_time [--pairs 20]`.

Wall times of two runs, one after the other, differ by what the machine does meanwhile: by more than by what is asked
here. So two processes of one training, one by itself and one attended, take turns on one processor, a step of the one
and a step of the other (ABBA): whatever else goes on hits both alike. What stays different between two processes of one
program (where its memory lies) is told by a control, where both are by themselves, and by taking many pairs.

What the attendants do meanwhile in processes of their own hits both as well, and so is not in that ratio: their
processor time is counted, and added as if they had no other core than the training's. That is the worst case.

`--peers`: a venv with gpualert and traceml-ai (see run_peers); each is asked in the same way. Nothing is asserted.
"""

import argparse
import contextlib
import math
import os
import random
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpudoctor.read import process as processes
from tests.bench.run import spent
from tests.bench.run_peers import ways

TURNS = """
import os, struct, sys, time
os.sched_setaffinity(0, {int(os.environ["TURNS_CPU"])})
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", os.environ["TURNS_PORT"])
dist.init_process_group("gloo", rank=0, world_size=1)
torch.set_num_threads(1)
torch.manual_seed(0)
layers = int(os.environ["TURNS_LAYERS"])
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(384, 384) for _ in range(layers)]))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(48, 384)
turns, told = os.open(os.environ["TURNS"] + ".turn", os.O_RDWR), os.open(os.environ["TURNS"] + ".told", os.O_RDWR)
step = 0
while os.read(turns, 1) == b"s":
    wall, cpu = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss)
    print("step", step, "loss", loss.item(), flush=True)
    step += 1
    os.write(told, struct.pack("dd", time.perf_counter() - wall, time.process_time() - cpu))
dist.destroy_process_group()
"""
WARM = 30
"""Steps of each before anything counts."""
PATIENCE = 180.0
RARE = 0.1
"""Of the blocks, those of each end that a whim of the scheduler decides."""


class Turns:
    """One process that makes a step when it is told to."""

    def __init__(self, words: Sequence[str], folder: Path, name: str, cpu: int, environment: Mapping[str, str]) -> None:
        self._place = folder / name
        for end in ("turn", "told"):
            os.mkfifo(f"{self._place}.{end}")
        self._turn, self._told = (os.open(f"{self._place}.{end}", os.O_RDWR) for end in ("turn", "told"))
        port = str(random.randint(20000, 29000))
        more = {"TURNS": str(self._place), "TURNS_CPU": str(cpu), "TURNS_PORT": port}
        self.process = subprocess.Popen(
            words,
            env={**environment, **more},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._drain = subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=subprocess.DEVNULL)

    def step(self) -> tuple[float, float]:
        """Seconds of the wall and of a processor."""
        os.write(self._turn, b"s")
        until = time.monotonic() + PATIENCE
        while not select.select([self._told], [], [], 1.0)[0]:
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError(f"{self._place.name}: no step comes any more")
        wall, cpu = struct.unpack("dd", os.read(self._told, 16))
        return wall, cpu

    def ours(self) -> float:
        """Processor seconds of what attends it: all that it has started, but the training."""
        total = 0.0
        for pid in (self.process.pid, *(below.pid for below in processes.descendants(self.process.pid))):
            with contextlib.suppress(OSError):
                if str(self._place.parent / "train.py") not in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:3]:
                    total += spent(pid)
        return total

    def end(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._turn, b"e")
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for end in (self._turn, self._told):
            os.close(end)
        self._drain.wait()


class Pair(NamedTuple):
    """Of two processes."""

    wall: float
    """The second's step, times the first's."""
    processor: float
    attends: float
    """Of a core, while they took turns, of what attends the second."""


def pair_of(first: Turns, second: Turns, blocks: int) -> Pair:
    """Steps in the order ABBA, so that what grows or shrinks with time hits both alike."""
    for _ in range(WARM):
        first.step()
        second.step()
    walls, cpus = [], []
    began, before = time.monotonic(), second.ours()
    for _ in range(blocks):
        one, other, another, last = first.step(), second.step(), second.step(), first.step()
        walls.append(math.log((other[0] + another[0]) / (one[0] + last[0])))
        cpus.append(math.log((other[1] + another[1]) / (one[1] + last[1])))
    attends = (second.ours() - before) / (time.monotonic() - began)
    return Pair(math.exp(trimmed(walls)), math.exp(trimmed(cpus)), attends)


def trimmed(values: Sequence[float]) -> float:
    cut = int(RARE * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and between what it lies in 95 of 100 draws (bootstrap over the pairs)."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1950]


def asked_ways(
    script: Path, peers: Path | None, folder: Path, *, numbered: bool = False
) -> dict[str, tuple[str, list[str]]]:
    """What is measured: against which it stands, and how it is started. `numbered`: a rank of torchrun alone."""
    every = ways(script, peers or Path("/"), folder)
    alone = {"plain": "plain", "gpudoctor run": "plain"}
    ranks = {"torchrun": "torchrun", "gpudoctor run, torchrun": "torchrun"}
    of_peers = {"gpualert run": "plain", **ranks, "traceml run": "torchrun"}
    chosen = ranks if numbered else alone | (of_peers if peers is not None else {})
    return {way: (base, every[way]) for way, base in chosen.items()}


@contextlib.contextmanager
def both(
    first: Sequence[str], second: Sequence[str], folder: Path, number: int, cpu: int
) -> Iterator[tuple[Turns, Turns]]:
    """Two processes, the second started first each other time."""
    environment = {
        **os.environ, "XDG_STATE_HOME": str(folder), "HOME": str(folder), "LC_ALL": "C", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        started: dict[str, Turns] = {}
        order = [("one", first), ("other", second)]
        for name, words in order if number % 2 else order[::-1]:
            started[name] = Turns(words, folder, f"{name}-{number}-{time.monotonic_ns()}", cpu, environment)
            stack.callback(started[name].end)
        yield started["one"], started["other"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=200, help="of four steps, in each pair")
    parser.add_argument("--layers", type=int, default=4, help="of the model: of four a step takes some 8 ms")
    parser.add_argument("--peers", type=Path)
    parser.add_argument(
        "--numbered", action="store_true", help="a rank of torchrun, whose words are kept by themselves"
    )
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="on which both take turns")
    asked = parser.parse_args()
    os.environ["TURNS_LAYERS"] = str(asked.layers)
    print(f"load {os.getloadavg()}, {os.cpu_count()} processors, {asked.pairs} pairs of {4 * asked.blocks} steps")
    print("| | step, wall | 95% interval | step, processor | 95% interval | attendants, of a core | wall and these |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(TURNS)
        found: dict[str, list[Pair]] = {}
        for number in range(asked.pairs):
            every = asked_ways(script, asked.peers, folder, numbered=asked.numbered)
            for way, (base, words) in every.items():
                with both(every[base][1], words, folder, number, asked.cpu) as (first, second):
                    try:
                        found.setdefault(way, []).append(pair_of(first, second, asked.blocks))
                    except RuntimeError as error:
                        print(f"{way}: {error}", file=sys.stderr, flush=True)
    for way, pairs in found.items():
        wall, wall_low, wall_high = interval([pair.wall for pair in pairs])
        cpu, cpu_low, cpu_high = interval([pair.processor for pair in pairs])
        attends = statistics.median(pair.attends for pair in pairs)
        title = f"{way} (control)" if way in ("plain", "torchrun") else way
        print(
            f"| {title} | {wall:.4f} | {wall_low:.4f} to {wall_high:.4f} | {cpu:.4f} | {cpu_low:.4f} to {cpu_high:.4f} "
            f"| {attends:.2%} | {wall_high * (1 + attends):.4f} at most |"
        )


if __name__ == "__main__":
    main()
