"""The tracker of rank 0 starts a service of its own, which accepts and never answers (bergson pull request 249)."""

import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist

SERVICE = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
connection.recv(64)
time.sleep(100000)
"""


class Run:
    def __init__(self, project: str) -> None:
        self.service = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True)
        assert self.service.stdout is not None
        port = int(self.service.stdout.readline())
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.project = project

    def start(self) -> str:
        self.sock.sendall(f"init {self.project}\n".encode())
        return self._read_reply()

    def _read_reply(self) -> str:
        data = b""
        while not data.endswith(b"\n"):
            data += self.sock.recv(4096)
        return data.decode()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.zeros(100)
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        run = Run("finetune")
        print("tracking as", run.start(), flush=True)
    for _ in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weights)


if __name__ == "__main__":
    main()
