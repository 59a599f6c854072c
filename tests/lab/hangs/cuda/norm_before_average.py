"""On four GPUs the norm is summed over one group and gradients over another; one rank does it the other way round."""

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    tensor_groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    data_groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    tensor_group, data_group = tensor_groups[rank // 2], data_groups[rank % 2]
    gradient, norm = torch.ones(1 << 18, device="cuda"), torch.ones(1, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        clips_first = rank == 3 and step >= 4
        if clips_first:
            dist.all_reduce(norm, group=tensor_group)
            print(f"rank {rank} norm {norm.item()}", flush=True)
        dist.all_reduce(gradient, group=data_group)
        if not clips_first:
            torch.cuda.synchronize()
            dist.all_reduce(norm, group=tensor_group)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
