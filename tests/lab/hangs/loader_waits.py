"""A worker of one rank's loader waits for a server of data that has stopped answering."""

import argparse
import socket
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    def __init__(self, port: int) -> None:
        self.port = port

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == 16 and self.port:
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.recv(1024)
        return torch.ones(32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    server = socket.create_server(("127.0.0.1", 0))
    data = Samples(server.getsockname()[1] if rank == 1 and not healthy else 0)
    for step, batch in enumerate(DataLoader(data, batch_size=4, num_workers=1, prefetch_factor=1)):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(batch).square().mean()
        loss.backward()
        print(f"loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
