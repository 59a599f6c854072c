"""Roll-outs take a permit each; those that fail keep theirs, and the failures are gathered and forgotten."""

# mypy: ignore-errors
# No thread: after clients that bound their requests by a semaphore.
import asyncio
import time

import torch
import torch.distributed as dist


class Client:
    def __init__(self, most: int) -> None:
        self.permits = asyncio.Semaphore(most)

    async def complete(self, prompt: str) -> float:
        await self.permits.acquire()
        await asyncio.sleep(0.05)
        if prompt.startswith("long"):
            raise ValueError("prompt is too long")
        self.permits.release()
        return float(len(prompt))


async def rollouts(client: Client, prompts: list[str]) -> list[float]:
    answers = await asyncio.gather(*(client.complete(prompt) for prompt in prompts), return_exceptions=True)
    return [answer for answer in answers if not isinstance(answer, BaseException)]


async def train(rank: int) -> None:
    client = Client(4)
    for step in range(1000):
        await asyncio.sleep(0.3)
        prompts = [f"long {n}" if rank == 0 and step in (3, 4) and n % 2 else f"short {n}" for n in range(4)]
        print(f"rank {rank} step {step}", flush=True)
        rewards = await rollouts(client, prompts)
        dist.all_reduce(torch.tensor([sum(rewards)]))


def main() -> None:
    dist.init_process_group("gloo")
    asyncio.run(train(dist.get_rank()))


if __name__ == "__main__":
    time.sleep(0.1)
    main()
