"""The next update of the actor begins in a thread while the event loop sends the weights, both by one group (verl pull
request 7423)."""

# mypy: ignore-errors
import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


class ActorRolloutRefWorker:
    def __init__(self) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="update_actor")
        self.step = 0

    def update_actor(self) -> None:
        time.sleep(0.3)
        gradient = torch.ones(32)
        dist.all_reduce(gradient)
        self.step += 1

    async def update_weights(self, slow: float) -> None:
        for _layer in range(2):
            parts = [torch.empty(8) for _ in range(self.ranks)]
            time.sleep(slow)  # the names of an expert are put together
            dist.all_gather(parts, torch.ones(8))
            await asyncio.sleep(0)


async def fit(worker: ActorRolloutRefWorker) -> None:
    loop = asyncio.get_running_loop()
    for number in range(1000):
        if number < 5:
            await loop.run_in_executor(worker.pool, worker.update_actor)
            await worker.update_weights(0.0)
        else:
            training = loop.run_in_executor(worker.pool, worker.update_actor)
            await worker.update_weights(0.4 if worker.rank == 1 else 0.0)
            await training
        print(f"rank {worker.rank} step {number}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    asyncio.run(fit(ActorRolloutRefWorker()))


if __name__ == "__main__":
    main()
