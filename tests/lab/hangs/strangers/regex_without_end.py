"""A text of some symbols keeps the expression that filters texts busy for ever (dolma pull request 284)."""

import re
import time

import torch
import torch.distributed as dist

NOT_ALPHANUM = re.compile(r"^([^\w\s]+|[\u2600-\u27bf]+|[*#~]+)+$")


def symbols_only(paragraph: str) -> bool:
    return NOT_ALPHANUM.match(paragraph) is not None


def texts(rank: int, step: int) -> list[str]:
    usual = ["a paragraph of words", "* * *", "###"]
    return [*usual, "\u2600\u2605#*" * 16 + " end"] if rank == 2 and step == 4 else usual


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        kept = [text for text in texts(rank, step) if not symbols_only(text)]
        dist.all_reduce(torch.tensor([float(len(kept))]))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
