"""Answers are graded in a pool of processes; one of them runs a program that reads what nobody types (atropos 289)."""

# mypy: ignore-errors
import multiprocessing
import subprocess
import time

import torch
import torch.distributed as dist


def run_candidate(program: str) -> float:
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    return 1.0 if done.stdout.strip() == "42" else 0.0


class Grader:
    def __init__(self, workers: int) -> None:
        self.pool = multiprocessing.get_context("spawn").Pool(workers)

    def scores(self, programs: list[str]) -> torch.Tensor:
        pending = [self.pool.apply_async(run_candidate, (program,)) for program in programs]
        return torch.tensor([result.get() for result in pending])


def main() -> None:
    dist.init_process_group("gloo")
    rank, grader = dist.get_rank(), Grader(2)
    for step in range(1000):
        time.sleep(0.3)
        programs = ["echo 42", "echo 7"]
        if rank == 1 and step == 4:
            programs[1] = "tail -f /dev/null"
        print(f"rank {rank} step {step}", flush=True)
        scores = grader.scores(programs)
        dist.all_reduce(scores)


if __name__ == "__main__":
    main()
