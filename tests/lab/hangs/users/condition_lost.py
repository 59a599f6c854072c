"""A notification came before anybody waited for it; who waits now waits for ever."""

import threading

import torch
import torch.distributed as dist

CONDITION = threading.Condition()


def finish() -> None:
    with CONDITION:
        CONDITION.notify_all()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 2 and step == 3:
            writer = threading.Thread(target=finish)
            writer.start()
            writer.join()
            with CONDITION:
                CONDITION.wait()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
