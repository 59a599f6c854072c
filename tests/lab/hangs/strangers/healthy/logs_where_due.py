"""The first process decides by its clock that a log is due, and tells the others."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class Due:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.last = seconds, time.time()

    def __call__(self) -> bool:
        answer = [time.time() - self.last >= self.seconds]
        dist.broadcast_object_list(answer, src=0)
        if answer[0]:
            self.last = time.time()
        return answer[0]


def main() -> None:
    dist.init_process_group("gloo")
    rank, due = dist.get_rank(), Due(2.0)
    for step in range(1000):
        time.sleep(0.4)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if due():
            numbers = [None] * dist.get_world_size()
            dist.all_gather_object(numbers, step)
            if rank == 0:
                time.sleep(2.5)


if __name__ == "__main__":
    main()
