"""An extension is built when it is first needed, under a lock; on one node a build that was killed has left it."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Baton:
    def __init__(self, lock: Path) -> None:
        self.lock = lock

    def try_acquire(self) -> bool:
        try:
            self.lock.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        while self.lock.exists():
            time.sleep(0.1)

    def release(self) -> None:
        self.lock.unlink()


def load(folder: Path) -> str:
    baton = Baton(folder / "lock")
    if baton.try_acquire():
        (folder / "fused_norm.so").write_text("built")
        baton.release()
    else:
        baton.wait()
    return (folder / "fused_norm.so").read_text()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    folder = Path(f"extensions-{rank}")
    folder.mkdir(exist_ok=True)
    if rank == 1 and not healthy:
        (folder / "lock").touch()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step == 3:
            print(f"rank {rank} fused norm: {load(folder)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
