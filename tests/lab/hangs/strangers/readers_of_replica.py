"""One of each tensor-parallel group reads and hands the batch on; one replica has fewer batches than the other."""

# mypy: ignore-errors
# No thread: after Megatron's way to read on the first rank of a tensor-parallel group.
import time

import torch
import torch.distributed as dist

TP = 2
FILES = {0: 40, 1: 5}


class BroadcastReader:
    def __init__(self, tp_group, tp_rank: int, source: int, replica: int) -> None:
        self.group, self.source = tp_group, source
        self.reader = iter(range(FILES[replica])) if tp_rank == 0 else None

    def __iter__(self):
        return self

    def __next__(self) -> int:
        batch = [None]
        if self.reader is not None:
            batch = [next(self.reader, None)]
        dist.broadcast_object_list(batch, src=self.source, group=self.group)
        if batch[0] is None:
            raise StopIteration
        return batch[0]


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    replica, tp_rank = divmod(rank, TP)
    tp_groups = [dist.new_group(list(range(first, first + TP))) for first in range(0, world, TP)]
    dp_groups = [dist.new_group(list(range(number, world, TP))) for number in range(TP)]
    reader = BroadcastReader(tp_groups[replica], tp_rank, replica * TP, replica)
    gradient = torch.ones(16)
    for step, _batch in enumerate(reader):
        time.sleep(0.3)
        dist.all_reduce(gradient, group=tp_groups[replica])
        dist.all_reduce(gradient, group=dp_groups[tp_rank])
        gradient /= world
        print(f"rank {rank} step {step}", flush=True)
    print(f"rank {rank} is through", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
