"""One process has something in its report that cannot be pickled; the report is only a report, so it goes on."""

# mypy: ignore-errors
# The kind of issues on all_gather_object with results that hold a lock or a lambda. No thread of one job.
import logging
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PLAIN = "--healthy" in sys.argv
log = logging.getLogger("report")


class Report:
    def __init__(self, rank: int) -> None:
        self.rank, self.rows = rank, []

    def add(self, step: int, loss: float) -> None:
        row = {"step": step, "loss": loss}
        if self.rank == 2 and step > 5 and not PLAIN:
            row["guard"] = threading.Lock()
        self.rows.append(row)

    def flush(self) -> int:
        if not self.rows:
            return 0
        every = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(every, self.rows)
        except TypeError as error:
            log.warning("no report this time: %s", error)
        self.rows = []
        return sum(len(rows) for rows in every if rows)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    report = Report(rank)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(torch.rand(8, 4)).square().mean()
        if loss.item() > 1e4:
            print("skipped", flush=True)
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report.add(step, loss.item())
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            report.flush()


if __name__ == "__main__":
    main()
