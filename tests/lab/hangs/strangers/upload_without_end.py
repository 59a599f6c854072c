"""Parts of a checkpoint go up in a pool of threads, and one of them is never answered (marin issue 9209)."""

import concurrent.futures
import http.client
import socket
import threading
import time

import torch
import torch.distributed as dist


def object_store() -> int:
    """Takes what is sent and says nothing."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            connection.recv(1024)
            CONNECTIONS.append(connection)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


CONNECTIONS: list[socket.socket] = []


class Uploader:
    def __init__(self, port: int) -> None:
        self.port = port
        self.pool = concurrent.futures.ThreadPoolExecutor(4)

    def part(self, number: int, data: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("PUT", f"/checkpoint/part{number}", body=data)
        return connection.getresponse().status

    def upload(self, weights: torch.Tensor) -> None:
        parts = [self.pool.submit(self.part, number, bytes(100)) for number in range(4)]
        for future in concurrent.futures.as_completed(parts):
            future.result()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = object_store() if rank == 1 else 0
    weights = torch.zeros(64)
    for step in range(3000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if step == 5 and rank == 1:
            Uploader(port).upload(weights)


if __name__ == "__main__":
    main()
