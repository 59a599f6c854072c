"""The engine refuses the update of weights, which the first rank reports, and the others are in the barrier behind it
(SkyRL pull request 1737)."""

# mypy: ignore-errors
import asyncio
import logging
import time

import torch
import torch.distributed as dist
from aiohttp import ClientResponseError, ClientSession, web

logger = logging.getLogger("skyrl")


class InferenceEngine:
    """Takes some updates, then none."""

    def __init__(self) -> None:
        self.taken, self.port = 0, 0

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post("/start_weight_update", self.start_weight_update)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]

    async def start_weight_update(self, _request: web.Request) -> web.Response:
        self.taken += 1
        return web.Response(status=200 if self.taken < 3 else 503)


class BroadcastStrategy:
    def __init__(self, rank: int, engine: InferenceEngine | None) -> None:
        self.rank, self.engine = rank, engine

    async def send_chunks(self, chunks: list[torch.Tensor]) -> None:
        if self.engine is not None:
            url = f"http://127.0.0.1:{self.engine.port}/start_weight_update"
            async with ClientSession(raise_for_status=True) as session, session.post(url):
                pass
        dist.barrier()
        for chunk in chunks:
            dist.broadcast(chunk, src=0)


async def run(rank: int) -> None:
    engine = InferenceEngine() if rank == 0 else None
    if engine is not None:
        await engine.start()
    strategy = BroadcastStrategy(rank, engine)
    for step in range(1000):
        await asyncio.sleep(0.2)
        loss = torch.ones(1)
        dist.all_reduce(loss)
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            try:
                await strategy.send_chunks([torch.ones(8), torch.ones(8)])
            except ClientResponseError:
                logger.exception("weights were not sent")
        time.sleep(0.01)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    asyncio.run(run(dist.get_rank()))
