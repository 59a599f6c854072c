"""At the end of an epoch the uploading thread is joined; it reads from a server that sends nothing."""

import socket
import threading

import torch
import torch.distributed as dist


def upload(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"PUT /last.ckpt\r\n")
        connection.recv(100)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    archive = socket.create_server(("127.0.0.1", 0))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            uploader = threading.Thread(target=upload, args=archive.getsockname()[1:])
            uploader.start()
            uploader.join()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
