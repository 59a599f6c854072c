"""An extension waits in C without releasing the GIL: no thread of that rank runs Python any more."""

import argparse
import ctypes
import time

import torch
import torch.distributed as dist

tokenizer = ctypes.PyDLL(None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--arm", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        import gpudoctor

        gpudoctor.arm()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.1)
        if arguments.healthy:
            tokenizer.usleep(300_000 * (1 + rank))
        print(f"rank {rank} step {step}", flush=True)
        if step == 3 and rank == 1 and not arguments.healthy:
            tokenizer.sleep(3600)
        dist.all_reduce(torch.ones(64))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
