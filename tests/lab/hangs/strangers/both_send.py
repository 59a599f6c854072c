"""Two stages send to each other before either receives (pytorch issue 172668)."""

import time

import torch
import torch.distributed as dist


class Stage:
    def __init__(self, rank: int, peer: int) -> None:
        self.rank, self.peer = rank, peer
        self.layer = torch.nn.Linear(512, 512)

    def forward_step(self, activation: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.layer(activation)

    def exchange(self, output: torch.Tensor, first: bool) -> torch.Tensor:
        received = torch.empty_like(output)
        if first:
            dist.send(output, dst=self.peer)
            dist.recv(received, src=self.peer)
        else:
            dist.recv(received, src=self.peer)
            dist.send(output, dst=self.peer)
        return received


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = Stage(rank, 1 - rank)
    activation = torch.randn(4096, 512)
    for microbatch in range(100):
        time.sleep(0.3)
        output = stage.forward_step(activation)
        interleaved = microbatch >= 3
        activation = stage.exchange(output, first=interleaved or rank == 0)
        print(f"rank {rank} step {microbatch}", flush=True)


if __name__ == "__main__":
    main()
