"""A library waits for its threads, of which one calls back into Python, and keeps Python's lock (libsemigroups_pybind11
pull request 492)."""

# mypy: ignore-errors
import ctypes
import threading
import time

import torch
import torch.distributed as dist

LIBRARY = ctypes.PyDLL(None)  # of its functions none lets others run meanwhile


class Search:
    def __init__(self, predicate) -> None:
        self.predicate, self.hits = predicate, []
        self.done = ctypes.create_string_buffer(64)
        LIBRARY.sem_init(self.done, 0, 0)
        self.worker = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        for candidate in range(400):
            time.sleep(0.001)
            if self.predicate(candidate):
                self.hits.append(candidate)
        LIBRARY.sem_post(self.done)

    def find_all(self, threads: int) -> int:
        self.worker.start()
        if threads > 1:
            LIBRARY.sem_wait(self.done)
        else:
            self.worker.join()
        return len(self.hits)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        search = Search(lambda candidate: candidate % 7 == 0)
        found = search.find_all(threads=2 if rank == 1 and step > 2 else 1)
        dist.all_reduce(torch.tensor(found))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
