"""Environments are closed while one of them has a step in its queue that nobody takes (ml-agents pull request 2600)."""

# mypy: ignore-errors
import multiprocessing
import time

import torch
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")


def environment_worker(commands, steps) -> None:
    while (command := commands.get()) != "close":
        steps.put({"observation": b"\0" * command})


class UnityEnvWorker:
    def __init__(self, steps) -> None:
        self.commands = FORK.Queue()
        self.process = FORK.Process(target=environment_worker, args=(self.commands, steps), daemon=True)
        self.process.start()

    def send(self, command) -> None:
        self.commands.put(command)

    def close(self) -> None:
        self.send("close")
        self.process.join()


class SubprocessEnvManager:
    def __init__(self, number: int, pixels: int) -> None:
        self.step_queue = FORK.Queue()
        self.workers = [UnityEnvWorker(self.step_queue) for _ in range(number)]
        self.pixels = pixels

    def step(self) -> int:
        for worker in self.workers:
            worker.send(self.pixels)
        return len(self.step_queue.get()["observation"])  # the first that comes

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    manager = SubprocessEnvManager(number=2 if rank == 1 else 1, pixels=300_000)
    for step in range(6):
        seen = torch.tensor(manager.step())
        time.sleep(0.2)
        dist.all_reduce(seen)
        print(f"rank {rank} step {step}", flush=True)
    manager.close()
    dist.barrier()
    print("closed", flush=True)


if __name__ == "__main__":
    main()
