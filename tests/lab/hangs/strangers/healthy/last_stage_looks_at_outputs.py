"""The last stage of a pipeline draws what the model says, for seven seconds (Megatron-Bridge pull request 6025)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    index, count = dist.get_rank(), dist.get_world_size()
    hidden = torch.zeros(4, 8)
    for step in range(10_000):
        if index > 0:
            dist.recv(hidden, src=index - 1)
        time.sleep(0.2)
        if index < count - 1:
            dist.send(hidden + 1, dst=index + 1)
            dist.recv(hidden, src=index + 1)
        elif step > 1 and step % 2:
            time.sleep(7.0)
        if index > 0:
            dist.send(hidden, dst=index - 1)
        print(f"rank {index} step {step}", flush=True)


if __name__ == "__main__":
    main()
