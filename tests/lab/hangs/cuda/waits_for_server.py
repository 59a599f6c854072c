"""Each rank asks a reward server of its own, which is waited for until it listens; one of them was never started."""

import argparse
import os
import socket
import time

import torch
import torch.distributed as dist


def wait_until_it_listens(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except ConnectionRefusedError:
            time.sleep(1.0)


def start_server() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.listen(64)
    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    server = start_server()
    port = server.getsockname()[1]
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 2 and not healthy:
            server.close()  # the server has ended, and its supervisor starts none again
        wait_until_it_listens(port)
        reward = torch.ones(256, device="cuda")
        dist.all_reduce(reward)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
