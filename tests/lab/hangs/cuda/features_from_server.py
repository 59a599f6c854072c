"""Features come from a server on each node, one line for one; that of one rank says nothing more."""

import os
import socket
import threading
import time

import torch
import torch.distributed as dist


def serve(listener: socket.socket, last: int) -> None:
    connection, _ = listener.accept()
    for line in connection.makefile():
        if int(line) < last:
            connection.sendall(b"0.5 0.25\n")


def features(server: socket.socket, step: int) -> bytes:
    server.sendall(f"{step}\n".encode())
    return server.recv(4096)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener, 4 if rank == 1 else 10_000), daemon=True).start()
    server = socket.create_connection(listener.getsockname())
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = features(server, step)
        dist.all_reduce(gradient * len(batch))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
