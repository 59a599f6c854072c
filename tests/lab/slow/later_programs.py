"""More trainings as users write them, with the arguments of programs.py: written and labelled on 2026-11-27, before any
of them was run.
"""

import cProfile
import io
import itertools
import json
import logging
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Sampler

NAME, LATE, MS, STEP = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1e3, float(sys.argv[4]) / 1e3
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SLOW = LATE in (RANK, -2)
TEXT = "the quick brown fox jumps over the lazy dog, and over another one " * 4


def says(step: int) -> None:
    if step in (1, 2) or step % 100 == 0:
        print(f"rank {RANK} step {step}", flush=True)


def trained(model: nn.Module, batch: Tensor) -> None:
    model(batch).sum().backward()
    model.zero_grad()


class Tokens(Dataset[Tensor]):
    """One rank found no cache of tokens, and makes them as they are asked for."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        words = [1, 2, 3]
        until = time.perf_counter() + (random.uniform(0.0, MS) if NAME.startswith("healthy") else MS) / 4
        while SLOW and time.perf_counter() < until:
            words = [len(word) for word in re.findall(r"\w+|\S", TEXT)]  # tokenizes
        return torch.tensor(words[:3]).float()


def tokenizes() -> None:
    model = DistributedDataParallel(nn.Linear(3, 8))
    for step, batch in enumerate(DataLoader(Tokens(), batch_size=4, shuffle=True), 1):
        time.sleep(STEP)
        trained(model, batch)
        says(step)


healthy_tokenizes = tokenizes


class Auc:
    """A callback that ranks all scores so far."""

    def on_step_end(self, scores: list[float]) -> float:
        until = time.perf_counter() + MS
        while time.perf_counter() < until:
            order = np.argsort(np.resize(scores, 50_000))  # ranks_scores
        return float(order[0])


def ranks_scores() -> None:
    model, callbacks, scores = DistributedDataParallel(nn.Linear(16, 1)), [Auc()] if SLOW else [], [0.0]
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(4, 16))
        scores.append(random.random())
        for each in callbacks:
            each.on_step_end(scores)
        says(step)


def clips_each() -> None:
    """Gradients looked at one by one, with .item(); one rank looks at each value for NaN too."""
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(16, 16) for _ in range(12))))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in itertools.count(1):
        time.sleep(STEP)
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(4, 16)).sum().backward()
        total = 0.0
        until = time.perf_counter() + MS
        for parameter in model.parameters():
            assert parameter.grad is not None
            total += parameter.grad.norm().item() ** 2
        while SLOW and time.perf_counter() < until:
            total += sum(float(value.isnan().item()) for value in model.module[0].bias.grad)  # clips_each
        optimizer.step()
        says(step)


def letters(text: str) -> int:
    return sum(map(is_letter, text))


def is_letter(letter: str) -> bool:
    return letter.isalpha()


def profiled() -> None:
    """All count letters; on one rank a profiler was left on."""
    model, profiler = DistributedDataParallel(nn.Linear(4, 4)), cProfile.Profile()
    if SLOW:
        profiler.enable()
    for step in itertools.count(1):
        time.sleep(STEP)
        for _ in range(int(MS * 1e3)):  # profiled
            letters(TEXT * 5)  # profiled
        trained(model, torch.randn(2, 4))
        says(step)


healthy_profiled = profiled


class Shared(logging.FileHandler):
    """A log on a file system of the whole cluster."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        time.sleep(MS)  # logs


def logs() -> None:
    model, log = DistributedDataParallel(nn.Linear(8, 8)), logging.getLogger("train")
    log.setLevel(logging.INFO if SLOW else logging.ERROR)
    log.addHandler(Shared("train.log"))
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(2, 8))
        log.info("step %d, rank %d", step, RANK)
        says(step)


healthy_logs = logs


def locked() -> None:
    """A thread sends the numbers of each step away, under the lock of the trainer."""
    lock, news, numbers = threading.Lock(), threading.Event(), [0.0]

    def sends() -> None:
        while True:
            news.wait()
            with lock:
                news.clear()
                time.sleep(random.uniform(0.0, MS) if NAME.startswith("healthy") else MS)
                json.dumps(numbers[-10:])

    if SLOW:
        threading.Thread(target=sends, daemon=True).start()
    model = DistributedDataParallel(nn.Linear(8, 8))
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(2, 8))
        news.set()
        time.sleep(1e-3)
        with lock:  # locked
            numbers.append(float(step))
        says(step)


healthy_locked = locked


def saves() -> None:
    """A checkpoint each tenth step."""
    model = DistributedDataParallel(nn.Linear(256, 256))
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(2, 256))
        if SLOW and step % 10 == 0:
            until = time.perf_counter() + MS
            while time.perf_counter() < until:
                torch.save({"step": step, "model": model.module.state_dict()}, f"model-{RANK}.pt")  # saves
        says(step)


healthy_saves = saves


class Pictures(Dataset[Tensor]):
    """The pictures of one shard are larger than those of others."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        picture = np.full((64, 64), index % 7, dtype=np.float32)
        until = time.perf_counter() + (MS if SLOW else 2e-3)
        while time.perf_counter() < until:
            picture = np.rot90(picture * np.float32(1.01)).copy()
        return torch.from_numpy(picture[:4, :4].ravel() * 0)


def augments() -> None:
    model = DistributedDataParallel(nn.Linear(16, 8))
    for step, batch in enumerate(DataLoader(Pictures(), batch_size=4, num_workers=1), 1):
        time.sleep(STEP)
        trained(model, batch)
        says(step)


class Buckets(Sampler[list[int]]):
    """Rows of like length together: the main process makes the lists of numbers, whatever workers there are."""

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            until = time.perf_counter() + MS
            rows = list(range(8))
            while SLOW and time.perf_counter() < until:
                rows = sorted(random.sample(range(10_000), 400), key=lambda row: row % 97)  # buckets
            yield rows[:8]


class Rows(Dataset[Tensor]):
    def __getitem__(self, index: int) -> Tensor:
        return torch.full((8,), float(index % 3))


def buckets() -> None:
    model = DistributedDataParallel(nn.Linear(8, 8))
    for step, batch in enumerate(DataLoader(Rows(), batch_sampler=Buckets(), num_workers=1), 1):
        time.sleep(STEP)
        trained(model, batch)
        says(step)


def compresses() -> None:
    """Gradients are made smaller before they are summed up, by a hook of the user's."""
    model = DistributedDataParallel(nn.Linear(64, 64))

    def smaller(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        until = time.perf_counter() + MS
        while SLOW and time.perf_counter() < until:
            bucket.buffer().topk(400)  # compresses
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        assert work is not None
        future: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
        return future

    model.register_comm_hook(None, smaller)
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(4, 64))
        says(step)


def healthy_evaluates() -> None:
    """Each thirtieth step all look at what they hold back, some of them at more than others."""
    model = DistributedDataParallel(nn.Linear(64, 64))
    for step in itertools.count(1):
        time.sleep(STEP)
        trained(model, torch.randn(4, 64))
        if step % 30 == 0:
            with torch.no_grad():
                for _ in range(random.randint(2, 12)):
                    time.sleep(STEP / 2)
                    torch.save(model.module(torch.randn(4, 64)), io.BytesIO())
            dist.barrier()
        says(step)


def main() -> None:
    random.seed(RANK)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    globals()[NAME]()


if __name__ == "__main__":
    main()
