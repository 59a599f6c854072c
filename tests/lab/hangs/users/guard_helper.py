"""The checkpoint, with a barrier at its end, is behind a helper that only the main process passes."""

import torch
import torch.distributed as dist


def is_main_process() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def save_checkpoint(step: int) -> None:
    torch.save({"step": step}, "last.pt")
    dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    loss = torch.ones(16)
    for step in range(1000):
        print(f"rank {dist.get_rank()} step {step}", flush=True)
        dist.all_reduce(loss)
        if step % 3 == 2 and is_main_process():
            save_checkpoint(step)


if __name__ == "__main__":
    main()
