"""One process stops at a loss that is odd and waits until somebody connects to its debugger, as remote-pdb does."""

# mypy: ignore-errors
# The kind of threads on remote-pdb, web-pdb and debugpy left in a training loop. No thread of one job.
import pdb
import socket
import sys
import time

import torch
import torch.distributed as dist

STOPS = "--healthy" not in sys.argv


class RemotePdb(pdb.Pdb):
    """pdb on a port: whoever connects has the prompt."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        listener = socket.create_server((host, 0))
        print("RemotePdb session open at", listener.getsockname(), "waiting for connection", flush=True)
        connection, _ = listener.accept()
        self.handle = connection.makefile("rw")
        super().__init__(stdin=self.handle, stdout=self.handle)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.ones(8)
    for step in range(1000):
        time.sleep(0.2)
        gradient = weights * (0.01 if rank == 0 or step < 6 else 0.5)
        if STOPS and gradient.norm() > 1.0:
            RemotePdb().set_trace()
        dist.all_reduce(gradient)
        weights -= gradient * 0.01
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
