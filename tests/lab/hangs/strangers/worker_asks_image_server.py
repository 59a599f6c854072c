"""Images are asked for by the loader's workers over HTTP; for one of them the server has no answer, nor an end."""

# mypy: ignore-errors
# The kind of torch forum questions on datasets that download (a request without a time limit in __getitem__).
import socket
import sys
import threading
import time
import urllib.request

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ANSWERS = "--healthy" in sys.argv


class ImageServer(threading.Thread):
    """Of the institute; here a thread of the first process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]

    def run(self) -> None:
        kept = []
        while True:
            client, _ = self.socket.accept()
            asked = client.recv(4096).split()[1].decode()
            if asked == "/image/37" and not ANSWERS:
                kept.append(client)
                continue
            body = b"7" * 16
            client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 16\r\n\r\n" + body)
            client.close()


class Images(Dataset):
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/image/"

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> torch.Tensor:
        with urllib.request.urlopen(f"{self.address}{index}") as answer:
            return torch.tensor(list(answer.read()), dtype=torch.float32) / 255


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = [None]
    if rank == 0:
        server = ImageServer()
        server.start()
        port = [server.port]
    dist.broadcast_object_list(port, src=0)
    sampler = torch.utils.data.DistributedSampler(Images(port[0]), shuffle=False)
    loader = DataLoader(Images(port[0]), batch_size=4, sampler=sampler, num_workers=1, prefetch_factor=1)
    model = DistributedDataParallel(torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step, images in enumerate(loader):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
