"""A callback ends the evolution where it likes what it sees, on the process that has seen it (netket issue 651)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class EnergyBelow:
    def __init__(self, bound: float) -> None:
        self.bound = bound

    def __call__(self, step: int, data: dict[str, float]) -> bool:
        return data["energy"] > self.bound


class Driver:
    def __init__(self, rank: int) -> None:
        self.rank, self.state = rank, torch.ones(4)

    def iter(self, steps: int):
        for step in range(steps):
            time.sleep(0.2)
            dist.all_reduce(self.state)
            self.state /= dist.get_world_size()
            yield step

    def run(self, steps: int, callbacks) -> None:
        stop = False
        for step in self.iter(steps):
            print(f"rank {self.rank} step {step}", flush=True)
            # Energies are sampled by each process for itself.
            data = {"energy": 10.0 - step * (1.6 if self.rank == 1 else 1.0)}
            for callback in callbacks:
                if not callback(step, data):
                    stop = True
            if stop:
                break


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    Driver(rank).run(300, [EnergyBelow(0.5)])
    final = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(final, torch.ones(1))
    print("done", flush=True)


if __name__ == "__main__":
    main()
