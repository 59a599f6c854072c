"""DeepSpeed: the checkpointer is the master's alone, and save_checkpoint waits for all (allennlp pull request 4693)."""

# mypy: ignore-errors
import sys
import time

import deepspeed
import torch

EVERYBODY = "--healthy" in sys.argv


class Checkpointer:
    def __init__(self, engine, every: int) -> None:
        self.engine, self.every = engine, every

    def maybe_save(self, step: int) -> None:
        if step % self.every == self.every - 1:
            self.engine.save_checkpoint("checkpoints", tag=f"step{step}")


def main() -> None:
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(4, 1)
    config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 0}}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    master = engine.global_rank == 0
    checkpointer = Checkpointer(engine, every=5) if master or EVERYBODY else None
    for step in range(1000):
        time.sleep(0.2)
        loss = engine(torch.randn(4, 4)).square().mean()
        engine.backward(loss)
        engine.step()
        print(f"rank {engine.global_rank} step {step}", flush=True)
        if checkpointer is not None:
            checkpointer.maybe_save(step)


if __name__ == "__main__":
    main()
