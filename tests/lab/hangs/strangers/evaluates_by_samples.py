"""An evaluation is due after so many samples, and batches of variable size let processes come there at other steps."""

# mypy: ignore-errors
# No thread: after usual loops that count tokens or samples.
import time

import torch
import torch.distributed as dist


def batch_size(rank: int, step: int) -> int:
    return 10 if rank == 2 else 8


class Loop:
    def __init__(self, rank: int) -> None:
        self.rank, self.weight = rank, torch.ones(8)
        self.samples_seen, self.next_eval, self.eval_interval = 0, 60, 60

    def evaluate(self) -> float:
        scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(scores, self.weight.mean().reshape(1))
        return float(torch.stack(scores).mean())

    def run(self) -> None:
        for step in range(1000):
            time.sleep(0.2)
            print(f"rank {self.rank} step {step}", flush=True)
            dist.all_reduce(self.weight)
            self.weight /= dist.get_world_size()
            self.samples_seen += batch_size(self.rank, step)
            if self.samples_seen >= self.next_eval:
                self.evaluate()
                self.next_eval += self.eval_interval


def main() -> None:
    dist.init_process_group("gloo")
    Loop(dist.get_rank()).run()


if __name__ == "__main__":
    main()
