"""An engine without requests: its driver waits for a connection, the workers for what it hands on (vllm 43420)."""

import time
from multiprocessing.connection import Client, Listener
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist


def execute(message: Any) -> float:
    logits = torch.full((8,), float(message["tokens"]))
    dist.all_reduce(logits)
    return logits.sum().item()


def driver() -> None:
    with Listener(("127.0.0.1", 0)) as listener:
        Thread(target=warm_up, args=(listener.address,), daemon=True).start()
        number = 0
        while True:
            with listener.accept() as connection:
                message = [connection.recv()]
                dist.broadcast_object_list(message, src=0)
                connection.send(execute(message[0]))
                print(f"rank 0 step {number}", flush=True)
                number += 1


def warm_up(address: Any) -> None:
    for tokens in range(4):
        with Client(address) as client:
            client.send({"tokens": tokens})
            client.recv()
        time.sleep(0.1)


def worker(rank: int) -> None:
    for number in range(1_000_000):
        message: list[Any] = [None]
        dist.broadcast_object_list(message, src=0)
        execute(message[0])
        print(f"rank {rank} step {number}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        driver()
    else:
        worker(dist.get_rank())
