"""The rank whose gradients overflow leaves out what the others do with them."""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        scaler.scale(model(torch.ones(8, 32)).square().mean()).backward()
        scaler.unscale_(optimizer)
        overflow = step == 3 and rank == 1 and not healthy
        if not overflow:
            norm = torch.zeros(1)
            dist.all_reduce(norm)
            print(f"norm {norm.item():.3f}", flush=True)
        scaler.step(optimizer)
        scaler.update()
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
