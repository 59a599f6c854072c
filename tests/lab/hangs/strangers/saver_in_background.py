"""A checkpoint is gathered in a thread while the main thread calls a barrier of the same group (KempnerForge 104)."""

import hashlib
import os
import threading
import time

import torch
import torch.distributed as dist


class AsyncCheckpointer:
    def __init__(self, rank: int) -> None:
        self.rank, self.thread = rank, None

    def save(self, state: dict[str, torch.Tensor]) -> None:
        if self.thread is not None:
            self.thread.join()
        self.thread = threading.Thread(target=self._write, args=(state,))
        self.thread.start()

    def _write(self, state: dict[str, torch.Tensor]) -> None:
        if self.rank == 1:  # the larger shard: its digest takes a while
            time.sleep(1.5)
        digest = hashlib.sha256(state["weights"].numpy().tobytes()).hexdigest()
        everybody = [None, None] if self.rank == 0 else None
        dist.gather_object(digest, everybody, dst=0)
        if everybody:
            with open("index.txt", "w") as index:
                index.write("\n".join(map(str, everybody)))


def main() -> None:
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    weights = torch.ones(1000)
    checkpointer = AsyncCheckpointer(rank)
    for step in range(500):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            checkpointer.save({"weights": weights.clone()})
            time.sleep(0.3)
            dist.barrier()


if __name__ == "__main__":
    main()
