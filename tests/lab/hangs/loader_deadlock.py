"""A data loader forks while a thread holds a lock that its workers want: in the child nobody will ever release it."""

import argparse
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

CACHE_LOCK = threading.Lock()


class Images(Dataset[torch.Tensor]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> torch.Tensor:
        with CACHE_LOCK:
            time.sleep(self.seconds)
            return torch.randn(16)


def refresh(held: threading.Event) -> None:
    with CACHE_LOCK:
        held.set()
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} has joined", flush=True)
    if rank == 1 and not healthy:
        held = threading.Event()
        threading.Thread(target=refresh, args=(held,), daemon=True).start()
        held.wait()
    loader = DataLoader(Images(0.2 if healthy else 0.01), batch_size=4, num_workers=1, multiprocessing_context="fork")
    for step, batch in enumerate(loader):
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)
        if not healthy:
            time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
