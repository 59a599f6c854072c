"""The first of each tensor-parallel pair tells the default group something."""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    tp = pairs[rank // 2]
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4), group=tp)
        if step > 2 and dist.get_rank(tp) == 0:
            dist.barrier()
        dist.all_reduce(torch.ones(8))


if __name__ == "__main__":
    main()
