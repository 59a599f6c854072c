"""Answers are verified with an alarm of the kernel around each; what takes too long counts as wrong, and the verifier
is left by its exception."""

# mypy: ignore-errors
# No thread of one job; the kind of open-r1 and verl issues on verifiers with signal.alarm.
import contextlib
import signal
import sys
import time
from itertools import pairwise

import torch
import torch.distributed as dist

EASY = "--healthy" in sys.argv


class TooLong(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds: float):
    def over(number, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def simplify(answer: list[int]) -> list[int]:
    while any(one > other for one, other in pairwise(answer)):
        answer = [min(pair) for pair in pairwise(answer)] + answer[-1:]
        time.sleep(0.02 * len(answer) / 8)
    return answer


class Verifier:
    def __init__(self) -> None:
        self.right, self.failed = 0, 0

    def score(self, answers: list[list[int]]) -> torch.Tensor:
        scores = torch.zeros(len(answers))
        try:
            with time_limit(0.6):
                for index, answer in enumerate(answers):
                    scores[index] = float(simplify(answer)[0] == 0)
                self.right += int(scores.sum())
                mean = scores.mean()
                dist.all_reduce(mean)
                return scores - mean / dist.get_world_size()
        except TooLong:
            self.failed += 1
            return scores


def answers_of(rank: int, step: int) -> list[list[int]]:
    long = 600 if rank == 2 and step == 5 and not EASY else 4
    return [list(range(long, -1, -1)), [0, 1, 2]]


def main() -> None:
    dist.init_process_group("gloo")
    rank, verifier = dist.get_rank(), Verifier()
    policy = torch.zeros(8)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        dist.barrier()
        advantages = verifier.score(answers_of(rank, step))
        gradients = [torch.zeros(8) for _ in range(dist.get_world_size())]
        dist.all_gather(gradients, torch.randn(8) * advantages.abs().sum())
        policy -= 0.01 * torch.stack(gradients).mean(0)


if __name__ == "__main__":
    main()
