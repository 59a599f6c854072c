"""Rollouts are gathered by asyncio; one waits for a turn that nobody takes any more."""

import argparse
import asyncio
import os
import time

import torch
import torch.distributed as dist


class Turns:
    def __init__(self) -> None:
        self.taken: dict[int, asyncio.Event] = {}

    def of(self, number: int) -> asyncio.Event:
        return self.taken.setdefault(number, asyncio.Event())


async def play(turns: Turns, number: int, gives_up: bool) -> float:
    if number:
        await turns.of(number - 1).wait()
    if not gives_up:
        turns.of(number).set()
    return 1.0


async def rollouts(lost: bool) -> list[float]:
    turns = Turns()
    return await asyncio.gather(*(play(turns, number, lost and number == 2) for number in range(4)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        rewards = asyncio.run(rollouts(rank == 1 and step == 4 and not healthy))
        total = torch.tensor(rewards).cuda()
        dist.all_reduce(total)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
