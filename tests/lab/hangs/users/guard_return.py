"""All but the first return early from what they should do together."""

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self) -> None:
        dist.init_process_group("gloo")
        self.global_rank = dist.get_rank()
        self.losses: list[float] = []

    def log(self, loss: torch.Tensor) -> None:
        if self.global_rank:
            return
        mean = loss.clone()
        dist.all_reduce(mean)
        self.losses.append(mean.item())

    def fit(self) -> None:
        for step in range(1000):
            print(f"rank {self.global_rank} step {step}", flush=True)
            loss = torch.tensor(0.5)
            dist.broadcast(torch.ones(8), src=0)
            if step > 2:
                self.log(loss)


if __name__ == "__main__":
    Trainer().fit()
