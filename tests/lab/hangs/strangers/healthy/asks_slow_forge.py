"""The revision of each checkpoint is asked of a server by git, and comes after five seconds (agentic-ci pull request
10)."""

# mypy: ignore-errors
import socket
import subprocess
import threading
import time

import torch
import torch.distributed as dist


def forge() -> str:
    """Takes connections and closes each after five seconds, which is an answer too."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=8)

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            time.sleep(5.0)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"git://127.0.0.1:{listener.getsockname()[1]}/recipes.git"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    url = forge() if rank == 0 else ""
    for step in range(10_000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step % 2 == 1:
            if rank == 0:
                subprocess.run(["git", "ls-remote", url], capture_output=True, check=False)
            dist.barrier()


if __name__ == "__main__":
    main()
