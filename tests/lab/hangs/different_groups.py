"""One rank adds up in another process group than the rest."""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--arm", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        import gpudoctor

        gpudoctor.arm()
    healthy = arguments.healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    everybody = list(range(dist.get_world_size()))
    data_parallel = dist.new_group(everybody)
    tensor_parallel = dist.new_group(everybody)
    gradient = torch.ones(256)
    for step in range(1000):
        time.sleep(0.2 + 0.4 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        if healthy or step < 3:
            dist.all_reduce(gradient, group=data_parallel)
        elif rank == 1:
            dist.all_reduce(gradient, group=tensor_parallel)
        else:
            dist.all_reduce(gradient, group=data_parallel)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
