"""The revision of a run is asked of a server by git, which waits for an answer (after agentic-ci pull request 10)."""

# mypy: ignore-errors
import os
import socket
import subprocess
import time

import torch
import torch.distributed as dist


def forge() -> str:
    """A server that takes the connection and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=8)
    forge.listener = listener
    return f"git://127.0.0.1:{listener.getsockname()[1]}/team/recipes.git"


def revision(url: str) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "ls-remote", url, "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.stdout.partition("\t")[0]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    url = forge() if rank == 0 else ""
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step == 6:
            message = [{"step": step, "revision": revision(url)} if rank == 0 else None]
            dist.broadcast_object_list(message, src=0)


if __name__ == "__main__":
    main()
