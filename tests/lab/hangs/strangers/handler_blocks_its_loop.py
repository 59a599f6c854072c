"""A reward server answers by asyncio; a handler hands a coroutine to its own loop and waits for it there."""

# mypy: ignore-errors
# No thread: the kind of `run_coroutine_threadsafe(...).result()` from within the loop.
import asyncio
import sys
import threading
import time
import urllib.request

import torch
import torch.distributed as dist


class RewardServer:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.port: asyncio.Future = self.loop.create_future()
        self.cache: dict[str, float] = {}
        threading.Thread(target=self.loop.run_until_complete, args=(self.serve(),), daemon=True).start()

    async def score(self, text: str) -> float:
        await asyncio.sleep(0.05)
        return float(len(text))

    def cached_score(self, text: str) -> float:
        if text not in self.cache:
            self.cache[text] = asyncio.run_coroutine_threadsafe(self.score(text), self.loop).result()
        return self.cache[text]

    async def answer(self, reader, writer) -> None:
        path = (await reader.readline()).split()[1].decode()
        while (await reader.readline()).strip():
            pass
        long_one = path.startswith("/long") and "--healthy" not in sys.argv
        value = self.cached_score(path) if long_one else await self.score(path)
        body = str(value).encode()
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async def serve(self) -> None:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.port.set_result(server.sockets[0].getsockname()[1])
        await server.serve_forever()


def reward(port: int, text: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{text}") as answer:
        return float(answer.read())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = torch.zeros(1, dtype=torch.long)
    if rank == 0:
        server = RewardServer()
        while not server.port.done():
            time.sleep(0.05)
        port[0] = server.port.result()
    dist.broadcast(port, 0)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        text = "long-answer" if step % 6 == 5 and rank == 1 else "answer"
        rewards = torch.tensor([reward(int(port), text)])
        dist.all_reduce(rewards)


if __name__ == "__main__":
    main()
