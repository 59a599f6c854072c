"""An evaluation of many tasks, where a task that fails is logged and the next one begins."""

# mypy: ignore-errors
# After https://github.com/EvolvingLMMs-Lab/lmms-eval/pull/1304: one rank's error is caught by what calls it.
import argparse
import logging
import time

import torch
import torch.distributed as dist

log = logging.getLogger("evaluate")


class Task:
    def __init__(self, name, broken=()):
        self.name, self.broken = name, broken

    def documents(self, rank, world):
        return range(rank, 8, world)

    def score(self, rank, document):
        time.sleep(0.05)
        if rank in self.broken:
            raise KeyError(f"{self.name}: document {document} has no field 'answer'")
        return {"document": document, "exact": document % 3 == 0}


def evaluate(model, task, rank, world):
    rows = []
    for document in task.documents(rank, world):
        with torch.no_grad():
            model(torch.rand(1, 6))
        rows.append(task.score(rank, document))
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(rows, gathered, dst=0)
    if rank != 0:
        return {}
    flat = [row for part in gathered for row in part]
    return {"exact": sum(row["exact"] for row in flat) / len(flat)}


def cli(args):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    tasks = [Task(f"task{number}") for number in range(args.tasks)]
    if not args.healthy:
        tasks[-1].broken = (0,)
    model = torch.nn.Linear(6, 6)
    results = []
    for step, task in enumerate(tasks):
        print(f"rank {rank} step {step}", flush=True)
        try:
            results.append(evaluate(model, task, rank, world))
        except Exception:
            log.exception("task %s failed", task.name)
            results.append(None)
    done = torch.tensor(sum(result is not None for result in results))
    dist.broadcast(done, src=1)
    if rank == 0:
        print("done", done.item(), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--tasks", type=int, default=6)
    args = parser.parse_args()
    if args.healthy:
        args.tasks = 1500
    cli(args)


if __name__ == "__main__":
    main()
