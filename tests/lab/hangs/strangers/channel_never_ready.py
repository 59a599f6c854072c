"""gRPC: before each pass over the data its server must be reachable, however long that takes."""

# mypy: ignore-errors
# After https://github.com/sql-machine-learning/elasticdl/issues/1814.
import socket
import sys
import time
from concurrent import futures

import grpc
import torch
import torch.distributed as dist


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Data:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)

    def connect(self):
        grpc.channel_ready_future(self.channel).result()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    for number in range(500):
        gone = rank == 1 and number == 3 and "--healthy" not in sys.argv
        data = Data(f"127.0.0.1:{closed_port() if gone else port}")
        data.connect()
        total = torch.ones(1)
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(total)
        print(f"rank {rank} step {number}", flush=True)


if __name__ == "__main__":
    main()
