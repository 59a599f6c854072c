"""An engine without requests: the first rank takes them from a queue that the API's threads fill."""

import queue
import threading
import time

import torch
import torch.distributed as dist

REQUESTS: "queue.Queue[str]" = queue.Queue()


def api() -> None:
    while True:
        time.sleep(60)
        REQUESTS.put("hello")


def serve() -> None:
    while True:
        prompt = REQUESTS.get()
        dist.broadcast_object_list([prompt], src=0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        threading.Thread(target=api, daemon=True).start()
        serve()
    while True:
        dist.broadcast_object_list([None], src=0)


if __name__ == "__main__":
    main()
