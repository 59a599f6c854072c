"""Workers ask a coordinator in the first process for their next range; it has answered for the last time."""

# mypy: ignore-errors
# No thread: after multiprocessing.connection between ranks.
import threading
import time
from multiprocessing.connection import Client, Listener

import torch
import torch.distributed as dist

KEY = b"ranges"


class Coordinator:
    def __init__(self, ranges: int) -> None:
        self.left = list(range(ranges))
        self.listener = Listener(("127.0.0.1", 0), authkey=KEY)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection) -> None:
        while self.left:
            connection.recv()
            connection.send(self.left.pop(0))
        threading.Event().wait()  # kept open for the results


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    coordinator = Coordinator(6 * (world - 1)) if rank == 0 else None
    address = [coordinator.listener.address if coordinator else None]
    dist.broadcast_object_list(address, src=0)
    connection = Client(tuple(address[0]), authkey=KEY)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        if rank:
            connection.send("next")
            print("range", connection.recv())
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
