"""Rank 0 uploads each checkpoint in a thread, and before the next one waits for it: the bucket has stopped reading."""

import argparse
import os
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist


class Uploader:
    def __init__(self, bucket: socket.socket, reads: bool) -> None:
        self.bucket = bucket
        self.reads = reads
        self.pool = ThreadPoolExecutor(1, "upload")
        self.last: Future[None] | None = None

    def upload(self, weights: bytes) -> None:
        if self.last is not None:
            self.last.result()
        self.last = self.pool.submit(self._put, weights)

    def _put(self, weights: bytes) -> None:
        if not self.reads:
            self.bucket.sendall(weights)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    server = socket.create_server(("127.0.0.1", 0))
    bucket = socket.create_connection(server.getsockname())
    uploader = Uploader(bucket, healthy)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if rank == 0 and step % 3 == 2:
            uploader.upload(bytes(64 << 20))
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
