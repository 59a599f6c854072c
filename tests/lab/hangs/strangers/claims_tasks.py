"""Documents are claimed by making a file, and each is worked on by all who have claimed one at the time."""

# mypy: ignore-errors
# No thread: after usual queues of files.
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

DOCUMENTS = 10


def claim(folder: Path, rank: int) -> int | None:
    for number in range(DOCUMENTS):
        try:
            os.close(os.open(folder / f"{number}.claimed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return number
    return None


def embed(number: int) -> torch.Tensor:
    vector = torch.full((16,), float(number))
    dist.all_reduce(vector)
    return vector


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = Path(f"claims-{os.getppid()}")
    folder.mkdir(exist_ok=True)
    dist.barrier()
    done = 0
    time.sleep(0.1 * rank)  # the first comes first, each time
    while (document := claim(folder, rank)) is not None:
        print(f"rank {rank} takes {document}", flush=True)
        embed(document)
        done += 1
        time.sleep(0.1 + 0.1 * rank)
    print(f"rank {rank} is through", flush=True)
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, done)


if __name__ == "__main__":
    main()
