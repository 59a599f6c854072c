"""A training as users write it, with a delay at a place of its step on one rank: `--at PLACE --rank R --ms MS`.

It knows nothing of gpudoctor. Places: input (in the data set, num_workers=0), worker (in a data loader's worker),
forward, backward, collective (before an all_reduce of the program's own), log (rank 0 writes a log), storage (in the
data set, which reads --file), gpu (its GPU works for so long more), none. With `--noise MS` every rank sleeps for that
long in the mean, at random, evenly. On gloo; `--gpu`: on NCCL and GPU 0, the work of a step is the GPU's.
"""

import argparse
import mmap
import os
import random
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", default="none")
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--ms", type=float, default=20.0)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--kind", default="even", choices=("even", "uniform", "exponential", "rare", "pause"))
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--burn", action="store_true", help="compute in the delay, not sleep")
    parser.add_argument("--file", default="", help="what is read for each sample, past the page cache (--at storage)")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--item", action="store_true", help="wait for the GPU in each step")
    return parser.parse_args()


given = options()


def delay(place: str) -> None:
    global step
    if given.at == place and given.rank in (rank, -2) and step % given.every == 0:
        if given.burn:
            end = time.perf_counter() + given.ms / 1000
            while time.perf_counter() < end:
                pass
        else:
            time.sleep(given.ms / 1000)


def compute(milliseconds: float) -> None:
    """On the GPU; nobody waits for it."""
    torch.cuda._sleep(int(milliseconds * 1_900_000))  # type: ignore[no-untyped-call]


def read(index: int) -> None:
    """64 KiB of the file."""
    file = os.open(given.file, os.O_RDONLY | os.O_DIRECT)
    os.preadv(file, [mmap.mmap(-1, 65536)], index % (os.fstat(file).st_size // 65536) * 65536)
    os.close(file)


def noise() -> float:
    """Seconds, of the same kind on all ranks."""
    mean: float = given.noise / 1000
    if given.kind == "uniform":
        return random.uniform(0, 2 * mean)
    if given.kind == "exponential":
        return random.expovariate(1 / mean) if mean else 0.0
    if given.kind == "rare":  # a hundred times as long, once in a hundred steps
        return 100 * mean if random.random() < 0.01 else 0.0
    if given.kind == "pause":  # one rank after the other, for half a second
        return mean * 8 if int(time.time() * 2) % dist.get_world_size() == rank else mean
    return mean


class Samples(Dataset[Tensor]):
    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Tensor:
        if torch.utils.data.get_worker_info() is None:
            delay("input")
        if given.at == "storage":
            if given.rank in (rank, -2):
                read(index)
        elif torch.utils.data.get_worker_info() is None:
            pass
        elif given.at == "worker" and rank == given.rank:
            time.sleep(given.ms / 1000)
        return torch.full((64,), float(index % 7))


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        delay("backward")
        return gradient


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, value: Tensor) -> Tensor:
        delay("forward")
        if given.at == "gpu" and given.rank == rank:
            compute(given.ms)
        return Slow.apply(self.layers(value))  # type: ignore[no-any-return,no-untyped-call]


rank = step = 0


def main() -> None:
    global rank, step
    device = torch.device("cuda", 0) if given.gpu else torch.device("cpu")
    if given.gpu:
        torch.cuda.set_device(device)
        os.environ["NCCL_HOSTID"] = os.environ["RANK"]  # or NCCL refuses ranks that share a GPU
    dist.init_process_group("nccl" if given.gpu else "gloo")
    rank = dist.get_rank()
    random.seed(rank)
    torch.set_num_threads(1)
    model = DistributedDataParallel(Net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(Samples(), batch_size=1, num_workers=given.workers)
    for step, batch in enumerate(loader):
        if step >= given.steps:
            break
        if given.gpu:
            compute(given.step_ms)
        else:
            time.sleep(max(0.0, given.step_ms / 1000))
        if given.noise:
            time.sleep(noise())
        loss = model(batch.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        delay("collective")
        dist.all_reduce(loss)
        if given.item:
            loss.item()
        delay("log")
        if step == 0:
            print(f"rank {rank} step 1", flush=True)
    dist.barrier()
    print(f"rank {rank} over", flush=True)


if __name__ == "__main__":
    main()
