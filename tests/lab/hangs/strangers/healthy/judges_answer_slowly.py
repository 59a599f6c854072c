"""Answers are judged over HTTP, some at once, and each judgement takes seconds (verl pull request 7423)."""

# mypy: ignore-errors
import asyncio
import time

import torch
import torch.distributed as dist
from aiohttp import ClientSession, web


async def judge(request: web.Request) -> web.Response:
    await asyncio.sleep(float(request.query["seconds"]))
    return web.json_response({"reward": 1.0})


async def start_judge() -> int:
    application = web.Application()
    application.router.add_get("/judge", judge)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner.addresses[0][1]


async def rewards(session: ClientSession, port: int, step: int) -> float:
    async def one(number: int) -> float:
        seconds = 0.1 if step < 2 else 2.0 + 2 * number
        async with session.get(f"http://127.0.0.1:{port}/judge", params={"seconds": str(seconds)}) as response:
            return (await response.json())["reward"]

    return sum(await asyncio.gather(*(one(number) for number in range(3))))


async def train(rank: int) -> None:
    port = await start_judge()
    async with ClientSession() as session:
        for step in range(10_000):
            reward = await rewards(session, port, step) if rank == 1 else 0.0
            time.sleep(0.1)
            dist.all_reduce(torch.tensor(reward))
            print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    asyncio.run(train(dist.get_rank()))
