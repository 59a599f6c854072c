"""An idle server on asyncio: rank 0 waits for connections, the others for work."""

import asyncio

import torch
import torch.distributed as dist


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    line = await reader.readline()
    dist.broadcast_object_list([line], src=0)
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        asyncio.run(serve())
    else:
        while True:
            dist.broadcast_object_list([None], src=0)


if __name__ == "__main__":
    main()
