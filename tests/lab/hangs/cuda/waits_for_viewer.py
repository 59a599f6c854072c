"""Every few steps rank 0 shows the loss to whoever looks: with a viewer it is sent, and one setting waits for him."""

import argparse
import os
import socket
import time

import torch
import torch.distributed as dist


def show(board: socket.socket, loss: float) -> None:
    try:
        viewer, _ = board.accept()
    except TimeoutError:
        return
    with viewer:
        viewer.sendall(f"{loss}".encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    board = socket.create_server(("127.0.0.1", 0))
    board.settimeout(0.1 if healthy else None)
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        loss = gradient[0].item()
        if rank == 0 and step % 4 == 3:
            show(board, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
