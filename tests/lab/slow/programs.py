"""Trainings as users write them, one a function: `programs.py NAME RANK MS STEP_MS [FILE]`, RANK being late by MS.

They know nothing of gpudoctor. A line that ends in `# NAME` is where the late rank spends its time. With RANK -1 nobody
is late; the names of `healthy_*` are noisy, evenly.
"""

import gc
import itertools
import json
import math
import os
import queue
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

NAME, LATE, MS, STEP = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3
FILE = sys.argv[5] if len(sys.argv) > 5 else ""
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SLOW = LATE in (RANK, -2)


def says(step: int) -> None:
    if step in (1, 2) or step % 100 == 0:
        print(f"rank {RANK} step {step}", flush=True)


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:  # accumulates
        math.sqrt(2.0)  # accumulates


def by_hand() -> None:
    """Gradients summed by the program itself; features made by a function that is no module."""
    weight = torch.randn(64, 10, requires_grad=True)

    def features(rows: Tensor) -> Tensor:
        if SLOW:
            time.sleep(MS)  # by_hand
        return rows.tanh()

    for step in itertools.count(1):
        time.sleep(STEP)
        loss = functional.cross_entropy(features(torch.randn(16, 64)) @ weight, torch.randint(0, 10, (16,)))
        (gradient,) = torch.autograd.grad(loss, weight)
        dist.all_reduce(gradient)
        with torch.no_grad():
            weight -= 1e-3 * gradient / WORLD
        says(step)


class Text(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        assert get_worker_info() is not None
        while True:
            if NAME.startswith("healthy"):
                time.sleep(random.uniform(0.0, 2 * STEP))
            elif SLOW:
                busy(MS)
            yield torch.randint(0, 100, (32,))


def streamed() -> None:
    """Text that a worker makes into numbers."""
    table = nn.EmbeddingBag(100, 16)
    model = DistributedDataParallel(table)
    optimizer = torch.optim.AdamW(model.parameters())
    for step, rows in enumerate(DataLoader(Text(), batch_size=4, num_workers=1, prefetch_factor=2), 1):
        time.sleep(STEP)
        optimizer.zero_grad(set_to_none=True)
        model(rows).sum().backward()
        optimizer.step()
        says(step)


healthy_workers = streamed


def hooked() -> None:
    """A hook on a tensor, in the backward; by accelerate."""
    from accelerate import Accelerator  # type: ignore[import-untyped]

    accelerator = Accelerator(cpu=True)
    net = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
    model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=1e-3))

    def watch(gradient: Tensor) -> None:
        if SLOW:
            time.sleep(MS)  # hooked
        watch.norm = float(gradient.norm())  # type: ignore[attr-defined]

    for step in itertools.count(1):
        time.sleep(STEP)
        output = model(torch.randn(8, 32))
        output.register_hook(watch)
        accelerator.backward(output.square().mean())
        optimizer.step()
        optimizer.zero_grad()
        says(step)


def accumulates() -> None:
    """Four small batches for a step, with its own clipping of gradients."""
    model = DistributedDataParallel(nn.Linear(128, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def clip(parameters: list[Tensor]) -> None:
        if SLOW:
            busy(MS)  # accumulates
        total = torch.stack([gradient.norm() for each in parameters if (gradient := each.grad) is not None]).norm()
        dist.all_reduce(total)

    for step in itertools.count(1):
        for part in range(4):
            with model.no_sync() if part < 3 else torch.enable_grad():
                time.sleep(random.uniform(0.0, STEP / 2) if NAME.startswith("healthy") else STEP / 4)
                model(torch.randn(8, 128)).square().mean().backward()
        clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        says(step)


healthy_accumulates = accumulates


def writes_metrics() -> None:
    """Rank 0 keeps a histogram of all weights for each step."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4)))
    optimizer = torch.optim.Adam(model.parameters())
    lines = Path("metrics.jsonl").open("w")  # noqa: SIM115
    for step in itertools.count(1):
        time.sleep(STEP)
        loss = model(torch.randn(4, 64)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if SLOW:
            until = time.perf_counter() + MS
            while time.perf_counter() < until:
                some = model.module[0].weight[:8].flatten().tolist()  # writes_metrics
                row = json.dumps([round(x, 3) for x in some])  # writes_metrics
            lines.seek(0)
            lines.write(row)
        says(step)


def gathers_objects() -> None:
    """Numbers of all ranks gathered as objects after each step."""
    model = nn.Linear(16, 1)
    losses: list[float] = []
    for step in itertools.count(1):
        time.sleep(STEP)
        losses.append(model(torch.randn(4, 16)).mean().item())
        if SLOW:
            quantiles(losses)
        found: list[Any] = [None] * WORLD
        dist.all_gather_object(found, {"rank": RANK, "loss": losses[-1]})
        says(step)


def quantiles(losses: list[float]) -> None:
    end = time.perf_counter() + MS
    while time.perf_counter() < end:
        np.percentile(np.resize(losses, 20_000), [5, 50, 95])  # gathers_objects


def prefetches() -> None:
    """A thread of its own reads ahead, into a queue."""
    ready: queue.Queue[Tensor] = queue.Queue(1)

    def reads() -> None:
        while True:
            if SLOW:
                time.sleep(STEP + MS)
            ready.put(torch.randn(8, 32))

    threading.Thread(target=reads, daemon=True).start()
    model = DistributedDataParallel(nn.Linear(32, 32))
    for step in itertools.count(1):
        batch = ready.get()  # prefetches
        time.sleep(STEP)
        model(batch).sum().backward()
        model.zero_grad()
        says(step)


def reads_records() -> None:
    """A file of records, read without any loader."""
    model = DistributedDataParallel(nn.Linear(32, 8))
    file = os.open(FILE, os.O_RDONLY) if SLOW else -1
    for step in itertools.count(1):
        record = os.pread(file, 4096, 4096 * (step % 1000)) if SLOW else bytes(128)  # reads_records
        batch = torch.frombuffer(bytearray(record[:128]), dtype=torch.uint8).float().reshape(-1, 32)
        time.sleep(STEP)
        model(batch).sum().backward()
        model.zero_grad()
        says(step)


class Records(Dataset[Tensor]):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        if SLOW and FILE:
            with Path(FILE).open("rb", buffering=0) as file:
                file.seek(4096 * (index % 1000))
                file.read(4096)
        return torch.full((32,), float(index % 5))


def collate(rows: list[Tensor]) -> Tensor:
    if SLOW and not FILE:
        time.sleep(MS)  # collated
    return torch.stack(rows)


def collated() -> None:
    """Rows are put together by a function of the user's; FILE: they are read from there."""
    model = DistributedDataParallel(nn.Linear(32, 8))
    batches = iter(DataLoader(Records(), batch_size=2 if FILE else 8, collate_fn=collate, shuffle=True))
    step = 0
    while (batch := next(batches, None)) is not None:
        step += 1
        time.sleep(STEP)
        model(batch).sum().backward()
        model.zero_grad()
        says(step)


def decodes() -> None:
    """All ranks decode for some milliseconds of processor time."""
    model = DistributedDataParallel(nn.Linear(64, 8))
    for step in itertools.count(1):
        picture = np.random.default_rng(step).random((160, 160))
        until = time.thread_time() + MS
        while time.thread_time() < until:
            picture.sort()
        batch = torch.from_numpy(np.ascontiguousarray(picture[:8, :64])).float()
        time.sleep(STEP)
        model(batch).sum().backward()
        model.zero_grad()
        says(step)


class Words(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        if SLOW:
            until = time.perf_counter() + MS
            while time.perf_counter() < until:
                re.findall(r"(\w+)-(\w+)", "left-right up-down " * 200)  # in_a_module
        return rows * 2


def in_a_module() -> None:
    """A module that is not in the model works on words."""
    words, model = Words(), DistributedDataParallel(nn.Linear(32, 8))
    for step in itertools.count(1):
        time.sleep(STEP)
        model(words(torch.randn(4, 32))).sum().backward()
        model.zero_grad()
        says(step)


def recomputed() -> None:
    """Activations are computed again in the backward."""
    first, model = nn.Linear(32, 32), DistributedDataParallel(nn.Linear(32, 8))
    calls = 0

    def block(rows: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if SLOW and calls % 2 == 0:
            time.sleep(MS)  # recomputed
        made: Tensor = first(rows).relu()
        return made

    for step in itertools.count(1):
        time.sleep(STEP)
        hidden = checkpoint(block, torch.randn(4, 32, requires_grad=True), use_reentrant=False)
        model(hidden).sum().backward()
        model.zero_grad()
        says(step)


class Careful(torch.optim.Optimizer):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-3})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if SLOW:
            time.sleep(MS)  # own_optimizer
        for each in self.param_groups[0]["params"]:
            each.data -= 1e-3 * each.grad


def own_optimizer() -> None:
    """An optimizer that the user has written."""
    model = DistributedDataParallel(nn.Linear(32, 8))
    optimizer = Careful(model.parameters())
    for step in itertools.count(1):
        time.sleep(STEP)
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        says(step)


def awaits() -> None:
    """A sum is begun, something else is done, and then it is waited for."""
    weight = torch.zeros(1000)
    for step in itertools.count(1):
        work = dist.all_reduce(weight, async_op=True)
        time.sleep(random.expovariate(1 / STEP) if NAME.startswith("healthy") else STEP)
        if SLOW:
            time.sleep(MS)  # awaits
        assert work is not None
        work.wait()
        says(step)


healthy_awaits = awaits


def collects_garbage() -> None:
    """One rank keeps a large cache of objects, and collects garbage by itself after each step."""
    kept = [{"row": [number]} for number in range(int(MS * 1e7))] if SLOW else []
    model = DistributedDataParallel(nn.Linear(32, 8))
    for step in itertools.count(1):
        time.sleep(STEP)
        model(torch.randn(4, 32)).sum().backward()
        model.zero_grad()
        gc.collect()  # collects_garbage
        says(step)
    del kept


def healthy_lengths() -> None:
    """Texts of other lengths for each rank and step, and real work for each."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)))
    for step in itertools.count(1):
        time.sleep(STEP)
        model(torch.randn(random.randint(8, 1024), 128)).sum().backward()
        model.zero_grad()
        says(step)


def healthy_fsync() -> None:
    """Every rank writes its numbers to the disk."""
    weight = torch.zeros(1000)
    with Path(f"log-{RANK}").open("w") as lines:
        for step in itertools.count(1):
            time.sleep(STEP)
            lines.write(f"{step} {weight.sum().item()}\n")
            lines.flush()
            os.fsync(lines.fileno())
            dist.all_reduce(weight)
            says(step)


def healthy_in_turn() -> None:
    """Each step another rank has more to do."""
    weight = torch.zeros(1000)
    for step in itertools.count(1):
        time.sleep(3 * STEP if step % WORLD == RANK else STEP)
        dist.all_reduce(weight)
        says(step)


def healthy_garbage() -> None:
    """Garbage is collected when it comes to it, on every rank, in a step that varies by a fifth."""
    kept = [{"row": [number]} for number in range(200_000)]
    model = DistributedDataParallel(nn.Linear(32, 8))
    for step in itertools.count(1):
        time.sleep(random.uniform(0.8 * STEP, 1.2 * STEP))
        model(torch.randn(4, 32)).sum().backward()
        model.zero_grad()
        if random.random() < 0.1:
            gc.collect()
        says(step)
    del kept


def main() -> None:
    random.seed(RANK)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    globals()[NAME]()


if __name__ == "__main__":
    main()
