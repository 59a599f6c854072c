"""DeepSpeed: gradients are exchanged once enough tokens have been seen, which each process counts of its own texts."""

# mypy: ignore-errors
# The kind of DeepSpeed issues on set_gradient_accumulation_boundary. No thread of one job.
import sys
import time

import deepspeed
import torch
import torch.distributed as dist

BUDGET = 64
SAME = "--healthy" in sys.argv


def texts(rank: int):
    """Those of the second site are shorter."""
    length = 16 if rank == 0 or SAME else 14
    while True:
        yield torch.rand(length, 8)


def main() -> None:
    deepspeed.init_distributed("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 4,
            "zero_optimization": {"stage": 0},
        },
    )
    rank, tokens = engine.global_rank, 0
    for step, text in enumerate(texts(rank)):
        time.sleep(0.15)
        tokens += len(text)
        enough = tokens >= BUDGET
        engine.set_gradient_accumulation_boundary(is_boundary=enough)
        loss = engine(text).square().mean()
        engine.backward(loss)
        engine.step()
        if enough:
            tokens = 0
        print(f"rank {rank} step {step}", flush=True)
        if step % 10 == 9:
            dist.barrier()
            if rank == 0:
                print("at", step, "loss", loss.item(), flush=True)


if __name__ == "__main__":
    main()
