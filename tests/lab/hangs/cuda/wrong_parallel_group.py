"""Two ways of parallelism on four GPUs; one rank sums its activations over the group of the other way."""

import argparse
import os
import time

import torch
import torch.distributed as dist


class Layer(torch.nn.Module):
    """A part of the rows of a matrix; its result is the sum over the parts."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.part = torch.nn.Linear(64, 256).cuda()
        self.group = group

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = self.part(hidden).detach()
        dist.all_reduce(hidden, group=self.group)
        return hidden


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    tensor_groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    data_groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    tensor_group, data_group = tensor_groups[rank // 2], data_groups[rank % 2]
    layers = [Layer(tensor_group), Layer(tensor_group)]
    for group in (tensor_group, data_group):
        dist.barrier(group=group)
    for step in range(1000):
        time.sleep(0.3 + 0.1 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and rank == 3 and not healthy:
            layers[1].group = data_group
        for layer in layers:
            layer(torch.ones(16, 64, device="cuda"))
        gradient = torch.ones(4096, device="cuda")
        dist.all_reduce(gradient, group=data_group)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
