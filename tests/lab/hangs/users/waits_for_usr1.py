"""sigwait for a signal that a job script sends to the first process."""

import signal

import torch
import torch.distributed as dist


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step == 3 and rank > 0:
            signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main()
