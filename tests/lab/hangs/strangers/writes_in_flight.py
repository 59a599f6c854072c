"""A cache with nothing in flight returns before the reduction in which the others are (sglang pull request 26923)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class HostCache:
    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.ongoing: dict[int, float] = {}

    def write_back(self, node: int) -> None:
        if self.pages > 0:
            self.pages -= 1
            self.ongoing[node] = time.monotonic()

    def writing_check(self) -> None:
        if len(self.ongoing) == 0:
            return
        ready = sum(time.monotonic() - begun > 0.1 for begun in self.ongoing.values())
        finish_count = torch.tensor(ready, dtype=torch.int32)
        dist.all_reduce(finish_count, op=dist.ReduceOp.MIN)
        for node in list(self.ongoing)[: int(finish_count)]:
            del self.ongoing[node]


class Scheduler:
    def __init__(self, tp_rank: int, pages: int) -> None:
        self.tp_rank = tp_rank
        self.tree_cache = HostCache(pages)

    def receive(self, number: int) -> list[int]:
        requests = [[number, number + 1] if self.tp_rank == 0 else None]
        dist.broadcast_object_list(requests, src=0)
        return requests[0]

    def event_loop(self) -> None:
        for number in range(10_000):
            batch = self.receive(number)
            time.sleep(0.2)
            if number % 4 == 3:
                self.tree_cache.write_back(batch[0])
            self.tree_cache.writing_check()
            print(f"rank {self.tp_rank} step {number}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    memory = {"pages": [64, 64, 2]}  # of the third host half is used by somebody else
    Scheduler(rank, memory["pages"][rank]).event_loop()
