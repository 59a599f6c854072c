"""A rank leaves out a batch with `continue`: its barrier at the end meets the others' last all_reduce."""

import argparse
import time

import torch
import torch.distributed as dist


def batches(rank: int, count: int, spoil: bool) -> list[torch.Tensor]:
    found = [torch.randn(16) for _ in range(count)]
    if spoil and rank == 1:
        found[count // 2][3] = float("nan")
    return found


def train_epoch(rank: int, count: int, healthy: bool) -> None:
    gradient = torch.zeros(16)
    for step, batch in enumerate(batches(rank, count, spoil=not healthy)):
        time.sleep(0.2 + 0.4 * rank if healthy else 0.05)
        if not torch.isfinite(batch).all():
            continue
        gradient.copy_(batch)
        dist.all_reduce(gradient)
        print(f"rank {rank} step {step}", flush=True)
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--arm", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        import gpudoctor

        gpudoctor.arm()
    dist.init_process_group("gloo")
    for _ in range(100):
        train_epoch(dist.get_rank(), 6, arguments.healthy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
