"""Work is given out by a thread of the first process over multiprocessing's connections, to one at a time; who is
served first keeps its connection open."""

# mypy: ignore-errors
# No thread of one job; the kind of questions on multiprocessing.connection.Listener, which takes one after the other.
import multiprocessing.connection
import sys
import threading
import time

import torch
import torch.distributed as dist

CLOSES = "--healthy" in sys.argv


class Server(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = multiprocessing.connection.Listener(("127.0.0.1", 0), backlog=8)
        self.given = 0

    def run(self) -> None:
        while True:
            connection = self.listener.accept()
            try:
                while connection.recv() == "next":
                    connection.send(self.given)
                    self.given += 1
            except EOFError:
                connection.close()


class Source:
    def __init__(self, address: tuple[str, int]) -> None:
        self.address, self.connection = address, None

    def next(self) -> int:
        if self.connection is None:
            self.connection = multiprocessing.connection.Client(self.address)
        self.connection.send("next")
        number = self.connection.recv()
        if CLOSES:
            self.connection.close()
            self.connection = None
        return number


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    server = Server() if rank == 0 else None
    where = [server.listener.address if server else None]
    dist.broadcast_object_list(where)
    if server:
        server.start()
    source, total = Source(where[0]), torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        needs = rank == 1 or (rank == 2 and step > 3)
        dist.all_reduce(total.fill_(float(source.next() if needs else 0)))


if __name__ == "__main__":
    main()
