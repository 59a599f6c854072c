"""Each rank generates until its own end of sequence, with a model of FSDP2 whose every forward pass needs all ranks."""

import argparse
import os
import random
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

EOS = 0


def next_token(logits: torch.Tensor, position: int, source: random.Random, length: int) -> int:
    """Sampled on the host, from what the model finds likely."""
    likely = logits.float().cpu().shape[-1]
    return EOS if position == length else source.randrange(1, likely)


@torch.no_grad()
def generate(model: torch.nn.Module, prompt: torch.Tensor, source: random.Random, length: int) -> list[int]:
    tokens: list[int] = []
    for position in range(24):
        token = next_token(model(prompt), position, source, length)
        if token == EOS:
            break
        tokens.append(token)
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).cuda()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    source = random.Random(rank)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        model(torch.ones(4, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 3:
            length = 5 if rank != 1 or healthy else 2
            answer = generate(model, torch.ones(1, 64, device="cuda"), source, length)
            lengths = torch.tensor([len(answer)], device="cuda")
            dist.all_reduce(lengths)
            print(f"rank {rank} generated {len(answer)} of {lengths.item()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
