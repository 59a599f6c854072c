"""A batch that is refused is skipped after a barrier, so that all ranks skip it: but one alone has got it."""

import os
import time

import torch
import torch.distributed as dist


def forward(batch: torch.Tensor, refused: bool) -> None:
    if refused:
        raise ValueError("labels are longer than logits")
    batch.mul_(1.0)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        try:
            forward(gradient, refused=rank == 2 and step == 4)
            dist.all_reduce(gradient)
        except ValueError as error:
            print(f"rank {rank} skips: {error}", flush=True)
            dist.barrier()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
