"""A lock file around the building of an index, inside of which a helper locks the same file once more."""

# mypy: ignore-errors
# No thread; the kind of lock that counts for the open file, and not for the process.
import contextlib
import fcntl
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

HELD_ONCE = "--healthy" in sys.argv
FOLDER = os.path.join(tempfile.gettempdir(), f"index-{os.environ.get('MASTER_PORT', '0')}")


@contextlib.contextmanager
def locked(path):
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read_meta(path):
    with locked(path + ".meta.lock" if HELD_ONCE else path + ".lock"):
        return {"rows": 12}


def build_index(path, epoch):
    with locked(path + ".lock"):
        meta = read_meta(path)
        return [(row + epoch) % meta["rows"] for row in range(meta["rows"])]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs(FOLDER, exist_ok=True)
    order = list(range(12))
    for step in range(1000):
        time.sleep(0.2)
        total = torch.tensor([float(order[step % 12])])
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5 and rank == 0:
            order = build_index(os.path.join(FOLDER, "shuffle"), step)


if __name__ == "__main__":
    main()
