"""A queue is joined whose reader did not say of one result that it is done with it (ART pull request 429)."""

# mypy: ignore-errors
import json
import logging
import queue
import threading
import time

import torch
import torch.distributed as dist

log = logging.getLogger("art")


class Results:
    def __init__(self) -> None:
        self.results_queue: queue.Queue[str] = queue.Queue()
        self.scores: list[float] = []
        threading.Thread(target=self._consume, daemon=True).start()

    def _consume(self) -> None:
        while True:
            line = self.results_queue.get()
            try:
                self.scores.append(json.loads(line)["score"])
                self.results_queue.task_done()
            except json.JSONDecodeError as error:
                log.warning("left out: %s", error)

    def put(self, line: str) -> None:
        self.results_queue.put(line)

    def drain(self) -> float:
        self.results_queue.join()
        mean = sum(self.scores) / max(1, len(self.scores))
        self.scores.clear()
        return mean


def rollout(rank: int, step: int, number: int) -> str:
    """A model's answer, which is not always what was asked for."""
    if (rank, step, number) == (1, 5, 2):
        return '{"score": 0.5, "why": "it'
    return json.dumps({"score": 0.1 * number})


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    results = Results()
    for step in range(1000):
        for number in range(4):
            results.put(rollout(rank, step, number))
        time.sleep(0.2)
        reward = torch.tensor(results.drain())
        dist.all_reduce(reward)
        print(f"rank {rank} step {step} {reward:.2f}", flush=True)


if __name__ == "__main__":
    main()
