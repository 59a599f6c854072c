"""The first process sends its checkpoint to a store that takes ten seconds to read it; the others want the next
weights."""

import socket
import threading
import time

import torch
import torch.distributed as dist


def store(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        while connection.recv(1 << 18):
            time.sleep(0.15)
        connection.close()


def upload(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        for _ in range(64):
            connection.sendall(bytes(1 << 18))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=store, args=(listener,), daemon=True).start()
    weights = torch.zeros(8)
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step % 3 == 2:
            upload(listener.getsockname())
        dist.broadcast(weights, 0)
        time.sleep(0.3)


if __name__ == "__main__":
    main()
