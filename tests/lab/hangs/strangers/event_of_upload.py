"""Uploads go on behind in an executor; before the next one the last must have said that it is done."""

# mypy: ignore-errors
import concurrent.futures
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Store:
    """Objects by key, as a client of a bucket has them."""

    def __init__(self, rank):
        self.rank, self.objects = rank, {}

    def put(self, key, value):
        time.sleep(0.1)
        if self.rank == 1 and key == "step-5" and "--healthy" not in sys.argv:
            raise PermissionError(f"{key}: access denied")
        self.objects[key] = value


class Uploader:
    def __init__(self, store):
        self.store = store
        self.executor = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.finished = threading.Event()
        self.finished.set()

    def _upload(self, key, value):
        self.store.put(key, value)
        self.finished.set()

    def start(self, key, value):
        self.finished.clear()
        self.executor.submit(self._upload, key, value)

    def wait(self):
        self.finished.wait()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    uploader = Uploader(Store(rank))
    for step in range(2000):
        time.sleep(0.3)
        optimizer.zero_grad()
        model(torch.rand(2, 4)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        uploader.wait()
        uploader.start(f"step-{step}", [weight.detach().clone() for weight in model.parameters()])


if __name__ == "__main__":
    main()
