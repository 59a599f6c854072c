"""An engine behind asyncio asks its workers for their adapters, who wait for the next request (vllm issue 5531)."""

import asyncio
import time

import torch
import torch.distributed as dist


class Engine:
    def __init__(self) -> None:
        self.adapters = ["base"]

    def step(self, number: int) -> float:
        dist.broadcast_object_list([{"prompt": number}], src=0)
        logits = torch.ones(8)
        dist.all_reduce(logits)
        return logits.sum().item()

    def list_loras(self) -> list[str]:
        found: list[list[str]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(found, self.adapters)
        return sorted({name for names in found for name in names})

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(6):
            await asyncio.sleep(0.3)
            await loop.run_in_executor(None, self.step, number)
            print(f"rank 0 step {number}", flush=True)
        print(await loop.run_in_executor(None, self.list_loras), flush=True)


def execution_loop(rank: int) -> None:
    for number in range(1_000_000):
        request = [None]
        dist.broadcast_object_list(request, src=0)
        logits = torch.ones(8)
        time.sleep(0.05)
        dist.all_reduce(logits)
        print(f"rank {rank} step {number}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        asyncio.run(Engine().serve())
    else:
        execution_loop(dist.get_rank())
