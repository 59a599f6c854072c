"""The training thread takes model then file, the saver thread file then model."""

import threading
import time

import torch
import torch.distributed as dist

model_lock = threading.Lock()
file_lock = threading.Lock()


def save_in_background() -> None:
    with file_lock:
        time.sleep(0.5)
        with model_lock:
            print("saved")


def update() -> None:
    with model_lock:
        time.sleep(0.2)
        with file_lock:
            print("updated")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step == 3:
            threading.Thread(target=save_in_background, daemon=True).start()
            time.sleep(0.1)
            update()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
