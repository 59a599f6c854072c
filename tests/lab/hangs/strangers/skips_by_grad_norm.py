"""An engine leaves out updates of too large gradients; its optimizer scatters and gathers in step() (Neuron_SP 154)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class ShardedOptimizer:
    def __init__(self, parameters, lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr

    def step(self) -> None:
        world, rank = dist.get_world_size(), dist.get_rank()
        for parameter in self.parameters:
            flat = parameter.grad.flatten()
            dist.all_reduce(flat)
            mine = flat.chunk(world)[rank] / world
            parts = [torch.zeros_like(part) for part in flat.chunk(world)]
            dist.all_gather(parts, mine)
            with torch.no_grad():
                parameter -= self.lr * torch.cat(parts).view_as(parameter)


class NormGuard:
    def __init__(self, most: float) -> None:
        self.most, self.skipped = most, 0

    def should_skip(self, parameters) -> bool:
        norm = sum(float(parameter.grad.norm()) ** 2 for parameter in parameters) ** 0.5
        if norm > self.most:
            self.skipped += 1
            return True
        return False


class Engine:
    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.guard = model, NormGuard(50.0)
        self.optimizer = ShardedOptimizer(model.parameters(), lr=1e-3)

    def train_batch(self, batch: torch.Tensor) -> float:
        self.model.zero_grad()
        loss = self.model(batch).square().mean()
        loss.backward()
        if not self.guard.should_skip(list(self.model.parameters())):
            self.optimizer.step()
        losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, loss.detach())
        return float(torch.stack(losses).mean())


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    rank, engine = dist.get_rank(), Engine(torch.nn.Linear(6, 3, bias=False))
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        scale = 400.0 if rank == 2 and step == 5 else 1.0
        engine.train_batch(torch.randn(4, 6) * scale)


if __name__ == "__main__":
    main()
