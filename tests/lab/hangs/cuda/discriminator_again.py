"""Generator and discriminator learn in turns, the latter again while it is weak; each rank asks its own accuracy."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def learn(gradients: torch.Tensor) -> None:
    dist.all_reduce(gradients)
    gradients.div_(dist.get_world_size())
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    generator, discriminator = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        accuracy = 0.6 if step == 5 and rank == 2 and not healthy else 0.9
        if step % 2 == 1 and accuracy > 0.8:
            learn(generator)
        else:
            learn(discriminator)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
