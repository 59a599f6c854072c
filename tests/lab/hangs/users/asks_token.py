"""The hub wants a token, and the program asks for it as if somebody sat there."""

import getpass
import os

import torch
import torch.distributed as dist


def login() -> str:
    token = os.environ.get("HUB_TOKEN_OF_NOBODY")
    if token is None:
        token = getpass.getpass("Token: ")
    return token


def main() -> None:
    dist.init_process_group("gloo")
    me = dist.get_rank()
    for step in range(1000):
        print(f"rank {me} step {step}", flush=True)
        if me == 0 and step == 2:
            login()
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
