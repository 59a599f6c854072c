"""The best model is looked for on the main process: its metric, when it is computed, is synchronised over all ranks."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Accuracy:
    def __init__(self) -> None:
        self.right = torch.zeros(1, device="cuda")
        self.total = torch.zeros(1, device="cuda")

    def update(self, output: torch.Tensor) -> None:
        self.right += output.sign().sum()
        self.total += len(output)

    def compute(self) -> torch.Tensor:
        states = []
        for state in (self.right, self.total):
            gathered = [torch.zeros_like(state) for _ in range(dist.get_world_size())]
            dist.all_gather(gathered, state)
            states.append(torch.stack(gathered).sum())
        return states[0] / states[1]


@torch.no_grad()
def evaluate(model: torch.nn.Module) -> float:
    metric = Accuracy()
    for _ in range(3):
        metric.update(model(torch.ones(4, 32, device="cuda")))
    return metric.compute().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best = 0.0
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} loss {loss.item():.3f}", flush=True)
        if step % 5 == 4:
            model.eval()
            if healthy or rank == 0:
                best = max(best, evaluate(model.module))
            model.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
