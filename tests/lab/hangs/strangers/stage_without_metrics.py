"""Metrics of layers are brought together from all stages; a stage that watches no layer goes back at once
(bo-ke/llm-internal-medicine pull request 45)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

STILL_ASKS = "--healthy" in sys.argv


class Monitor:
    def __init__(self, layers: list[int]) -> None:
        self.layers, self.values, self.history = layers, {}, []

    def record(self) -> None:
        for layer in self.layers:
            self.values.setdefault(f"layer{layer}/norm", []).append(float(torch.rand(())))

    def gather_and_aggregate(self) -> dict:
        local = {name: sum(values) / len(values) for name, values in self.values.items()}
        self.values.clear()
        if not local and not STILL_ASKS:
            return {}
        everything = [None] * dist.get_world_size()
        dist.all_gather_object(everything, local)
        merged = {name: value for part in everything for name, value in part.items()}
        self.history.append(merged)
        return merged


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    monitor = Monitor([[0, 1], [2, 3], []][rank])
    gradient_norm = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.25)
        print(f"rank {rank} step {step}", flush=True)
        gradient_norm.fill_(1.0 / (step + 1))
        dist.all_reduce(gradient_norm, op=dist.ReduceOp.MAX)
        monitor.record()
        if step % 5 == 4:
            monitor.gather_and_aggregate()


if __name__ == "__main__":
    main()
