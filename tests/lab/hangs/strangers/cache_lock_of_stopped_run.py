"""datasets: the first process builds its table, which a run of this morning, stopped by ^Z, is building too."""

# mypy: ignore-errors
# The kind of datasets issues on a cache whose lock is never given back.
import os
import signal
import subprocess
import sys
import time

os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1")
import torch
import torch.distributed as dist
from datasets import Dataset

ALONE = "--healthy" in sys.argv


def lines(stops: bool):
    for number in range(200):
        if stops and os.environ.get("THIS_MORNING") and number == 20:
            os.kill(os.getpid(), signal.SIGSTOP)
        yield {"row": [float(number)] * 4}


def table() -> Dataset:
    return Dataset.from_generator(lines, gen_kwargs={"stops": True}, cache_dir="cache")


def this_morning() -> None:
    """Another run, in a terminal of its own."""
    if not ALONE:
        words = ["setsid", "-f", sys.executable, __file__, "--morning"]
        subprocess.run(words, env={**os.environ, "THIS_MORNING": "1"}, check=True)
        while not os.path.exists("morning.pid"):
            time.sleep(0.1)
        pid = open("morning.pid").read()
        while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        this_morning()
    dist.barrier()
    print(f"rank {rank} begins", flush=True)
    rows = table() if rank == 0 else None
    dist.barrier()
    rows = rows or table()
    weight = torch.zeros(4)
    for step in range(1000):
        time.sleep(0.3)
        gradient = torch.tensor(rows[step % len(rows)]["row"]) * 1e-3
        dist.all_reduce(gradient)
        weight -= gradient
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    if "--morning" in sys.argv:
        with open("morning.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("morning.new", "morning.pid")
        table()
    else:
        main()
