"""What the model says is collected on the last stage, for which the earlier ones run no forward pass (Megatron-Bridge
pull request 6025)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Stage:
    def __init__(self) -> None:
        self.index, self.count = dist.get_rank(), dist.get_world_size()
        self.layer = torch.nn.Linear(16, 16)

    def is_pipeline_last_stage(self) -> bool:
        return self.index == self.count - 1

    def recv_forward(self) -> torch.Tensor:
        if self.index == 0:
            return torch.randn(4, 16)
        hidden = torch.empty(4, 16)
        dist.recv(hidden, src=self.index - 1)
        return hidden

    def send_forward(self, hidden: torch.Tensor) -> None:
        if not self.is_pipeline_last_stage():
            dist.send(hidden, dst=self.index + 1)

    @torch.no_grad()
    def forward_step(self) -> torch.Tensor:
        hidden = self.layer(self.recv_forward())
        self.send_forward(hidden)
        return hidden


def evaluate(stage: Stage, process_non_loss_data) -> None:
    losses = [stage.forward_step().mean() for _ in range(2)]
    if stage.is_pipeline_last_stage():
        process_non_loss_data(stage.forward_step(), losses)
    dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    stage = Stage()
    for step in range(1000):
        time.sleep(0.2)
        stage.forward_step()
        dist.barrier()
        print(f"rank {stage.index} step {step}", flush=True)
        if step % 4 == 3:
            evaluate(stage, lambda data, losses: print(data.shape, len(losses), flush=True))


if __name__ == "__main__":
    main()
