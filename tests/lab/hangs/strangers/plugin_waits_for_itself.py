"""A task is brought by a module that is imported when it is first seen; at its end the module asks a thread, which
imports from the same module (the kind of huggingface/datasets issue 7756)."""

# mypy: ignore-errors
import importlib
import pathlib
import sys
import time

import torch
import torch.distributed as dist

LAZY = "--healthy" in sys.argv
PLUGIN = """
from concurrent.futures import ThreadPoolExecutor


def tokenize(text):
    from plugin_{rank} import TABLE
    return [TABLE.get(letter, 0) for letter in text]


def prepare():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(tokenize, ["abc", "bca"]))


TABLE = {{"a": 1, "b": 2, "c": 3}}
EXAMPLES = {now}
"""


def plugin(rank: int):
    path = pathlib.Path(f"plugin_{rank}.py")
    path.write_text(PLUGIN.format(rank=rank, now="[]" if LAZY else "prepare()"))
    sys.path.insert(0, str(path.parent.absolute()))
    importlib.invalidate_caches()
    return importlib.import_module(path.stem)


def task_of(rank: int, step: int) -> str:
    return "code" if rank == 1 and step == 4 else "text"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tasks, total = {"text": None}, torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        name = task_of(rank, step)
        if name not in tasks:
            tasks[name] = plugin(rank)
        dist.all_reduce(total.fill_(float(len(name))))


if __name__ == "__main__":
    main()
