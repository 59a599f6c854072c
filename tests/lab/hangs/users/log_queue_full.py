"""Records go through a bounded queue to a listener thread, which has ended with an exception. The model is in DDP."""

import logging
import logging.handlers
import queue
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RECORDS: "queue.Queue[logging.LogRecord]" = queue.Queue(maxsize=8)


class BlockingQueueHandler(logging.handlers.QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.put(record)  # type: ignore[attr-defined]


def write_records(rank: int) -> None:
    for number in range(10_000):
        RECORDS.get()
        if rank == 1 and number == 3:
            raise OSError(28, "No space left on device")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    threading.Thread(target=write_records, args=(rank,), daemon=True).start()
    log = logging.getLogger("train")
    log.setLevel(logging.INFO)
    log.addHandler(BlockingQueueHandler(RECORDS))
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        loss = model(torch.ones(4, 8)).sum()
        loss.backward()
        log.info("step %d loss %.3f", step, loss.item())


if __name__ == "__main__":
    main()
