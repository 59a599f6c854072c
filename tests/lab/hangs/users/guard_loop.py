"""The first rank has one thing more in its list of things to do."""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    position = dist.get_rank()
    for step in range(1000):
        print(f"rank {position} step {step}", flush=True)
        jobs = ["train"]
        if position == 0 and step > 2:
            jobs.append("evaluate")
        for job in jobs:
            dist.all_reduce(torch.ones(4 if job == "train" else 2))
        dist.broadcast(torch.ones(1), src=0)


if __name__ == "__main__":
    main()
