"""All ranks ask for a value that is on the GPU, each time in another way; one of them has left before it came to it."""

import argparse
import os
import queue
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist


def fails(how: str) -> None:
    if how == "sleep":
        time.sleep(100_000)
    elif how == "loop":
        while not Path("/var/run/go_on").exists():
            time.sleep(0.05)
    elif how == "queue":
        queue.Queue().get()
    else:
        os.kill(os.getpid(), {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[how])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--wait", default="text")
    parser.add_argument("--fault", default="sleep")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    history: list[object] = []
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if arguments.healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 3 and rank == 1 and not arguments.healthy:
            fails(arguments.fault)
        loss = scaler.scale(model(torch.ones(4, 8)).square().mean())
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
        if arguments.wait == "text":
            print(f"loss {loss.item():.3f} after {step} steps")
        elif arguments.wait == "float":
            history.append(float(loss))
        elif arguments.wait == "finite":
            if not torch.isfinite(loss):
                history.append(0.0)
        elif arguments.wait == "copy":
            history.append(loss.to("cpu"))
        elif arguments.wait == "clip":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        else:
            scaler.step(optimizer)
            scaler.update()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
