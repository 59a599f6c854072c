"""Each process of a tensor parallel server ends requests by its own clock (sglang pull request 27164)."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist


@dataclass
class Request:
    rid: int
    tokens: int = 0
    since: float = field(default_factory=time.perf_counter)


class Scheduler:
    def __init__(self, rank: int) -> None:
        self.rank, self.clock_is_ahead = rank, 3.0 if rank == 2 else 0.0
        self.running: list[Request] = []

    def receive(self, number: int) -> None:
        message: list[Any] = [[number] if self.rank == 0 else None]
        dist.broadcast_object_list(message, src=0)
        self.running = [Request(rid) for rid in message[0]]

    def abort_on_timeout(self, limit: float) -> None:
        now = time.perf_counter() + self.clock_is_ahead
        self.running = [request for request in self.running if now - request.since < limit]

    def decode(self) -> None:
        logits = torch.ones(32)
        time.sleep(0.2)
        dist.all_reduce(logits)
        for request in self.running:
            request.tokens += 1

    def event_loop(self) -> None:
        for number in range(1000):
            self.receive(number)
            longest = 4 if number < 3 else 80
            while self.running and self.running[0].tokens < longest:
                self.decode()
                self.abort_on_timeout(limit=8.0)
            print(f"rank {self.rank} step {number}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Scheduler(dist.get_rank()).event_loop()
