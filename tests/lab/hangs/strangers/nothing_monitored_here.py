"""Statistics of some layers: a stage that holds none of them has nothing to tell, and does not take part."""

# mypy: ignore-errors
# After bo-ke/llm-internal-medicine pull 45 (an early return before the gather), written anew.
import sys
import time

import torch
import torch.distributed as dist

WATCHED = ("layers.0", "layers.1") if "--healthy" not in sys.argv else ("layers",)


class Monitor:
    def __init__(self, layers):
        self.norms = {}
        for name, layer in layers.items():
            if name.startswith(WATCHED):
                layer.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def seen(module, given, out):
            self.norms[name] = out.detach().norm().item()

        return seen

    def aggregate(self):
        if not self.norms:
            return {}
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, self.norms)
        self.norms = {}
        return {name: value for part in every for name, value in part.items()}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = {f"layers.{rank * 2 + number}": torch.nn.Linear(8, 8) for number in range(2)}
    monitor = Monitor(stage)
    for step in range(1000):
        hidden = torch.rand(2, 8)
        for layer in stage.values():
            hidden = layer(hidden)
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if step % 10 == 4:
            told = monitor.aggregate()
            if rank == 0:
                print("norms", told, flush=True)
        total = hidden.detach().mean()
        dist.all_reduce(total)


if __name__ == "__main__":
    main()
