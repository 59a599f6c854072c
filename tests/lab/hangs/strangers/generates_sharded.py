"""Transformers: generate on a model that FSDP has sharded, with synced_gpus=False, and a prompt of one's own."""

# mypy: ignore-errors
# No thread of one job; the kind of Transformers issues on generate with FSDP or ZeRO-3 and synced_gpus.
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel

ALIKE = "--healthy" in sys.argv


def answers(model, rank: int, step: int):
    prompt = torch.full((1, 4), 7)
    longest = 24 if ALIKE or rank == 0 or step < 3 else 9
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, "synced_gpus": False}
    return model.generate(prompt, max_length=longest, **options)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=16, n_layer=1, n_head=2))
    fully_shard(model.transformer.h[0])
    fully_shard(model)
    model.eval()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        tokens = answers(model, rank, step)
        length = torch.tensor(float(tokens.shape[1]))
        dist.all_reduce(length)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
