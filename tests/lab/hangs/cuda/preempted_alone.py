"""The scheduler's warning comes to one task only: it saves and waits for the others, which train on."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Preemption:
    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGUSR1, self.note)

    def note(self, *_: object) -> None:
        self.came = True


def save(model: torch.nn.Module) -> None:
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, f"last-{dist.get_rank()}.pt")
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    preemption = Preemption()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 1 and not healthy:
            os.kill(os.getpid(), signal.SIGUSR1)  # as SLURM does with --signal where a task is named
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if preemption.came:
            save(model.module)
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
