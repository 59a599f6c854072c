"""The bar of the first process shows an average that is computed when it is asked for (after sleap-nn request 476)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Meter:
    """Sums up what this process has seen; its average is that of all."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.sum += value
        self.count += 1

    @property
    def average(self) -> float:
        parts = [torch.zeros(2) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, torch.tensor([self.sum, float(self.count)]))
        total = torch.stack(parts).sum(0)
        return float(total[0] / total[1])


class Bar:
    def __init__(self, shown: bool) -> None:
        self.shown, self.text = shown, ""

    def postfix(self, **values: float) -> None:
        self.text = " ".join(f"{name}={value:.3f}" for name, value in values.items())
        print(self.text, flush=True)


def train(rank: int) -> None:
    meter, bar = Meter(), Bar(shown=rank == 0)
    weight = torch.ones(16)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
        meter.update(float(weight.sum()))
        print(f"rank {rank} step {step}", flush=True)
        if step and step % 5 == 0 and bar.shown:
            bar.postfix(loss=meter.average)


def main() -> None:
    dist.init_process_group("gloo")
    train(dist.get_rank())


if __name__ == "__main__":
    main()
