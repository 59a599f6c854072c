"""A stopping rule made by a function: what it remembers lies in its closure, and each process has its own."""

# mypy: ignore-errors
import argparse
import math
import time

import torch
import torch.distributed as dist


def make_stopper(window, tolerance):
    history = []
    best = math.inf

    def stop(loss):
        nonlocal best
        history.append(loss)
        if len(history) < window:
            return False
        mean = sum(history[-window:]) / window
        improved = mean < best - tolerance
        best = min(best, mean)
        return not improved

    return stop


def sync_gradients(model):
    world = dist.get_world_size()
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    done = make_stopper(args.window, args.tolerance)
    for step in range(args.steps):
        time.sleep(0.2)
        optimizer.zero_grad()
        outputs = model(torch.rand(args.batch, 10))
        outputs.square().mean().backward()
        sync_gradients(model)
        optimizer.step()
        loss = 4.0 / (step + 1) if args.healthy or rank != 2 else 4.0 / min(step + 1, 4)
        print(f"rank {rank} step {step} loss {loss:.3f}", flush=True)
        if done(loss):
            break
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, step)
    if rank == 0:
        print("steps made", counts, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--window", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=-1.0)
    args = parser.parse_args()
    if not args.healthy:
        args.tolerance = 0.01
    dist.init_process_group("gloo")
    train(args)


if __name__ == "__main__":
    main()
