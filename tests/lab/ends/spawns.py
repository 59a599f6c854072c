"""The ranks of rank.py, started by torch.multiprocessing: `spawns.py END RANKS`."""

import os
import socket
import sys

from torch.multiprocessing.spawn import spawn


def one(rank: int, end: str, ranks: int) -> None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import rank as program  # type: ignore[import-not-found]

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1")
    program.train(rank, ranks, end, True)


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    spawn(one, args=(sys.argv[1], int(sys.argv[2])), nprocs=int(sys.argv[2]))  # type: ignore[no-untyped-call]
