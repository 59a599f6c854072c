"""The rank is asked for in the condition itself."""

import torch
import torch.distributed as dist


def summary(values: torch.Tensor) -> list[object]:
    result: list[object] = [None, None]
    dist.gather_object(values.sum().item(), result)
    return result


def loop() -> None:
    for step in range(1000):
        print(f"rank {dist.get_rank()} step {step}", flush=True)
        values = torch.ones(8)
        dist.all_reduce(values)
        if (me := dist.get_rank()) == 0 and step == 3:
            print(me, summary(values))


dist.init_process_group("gloo")
loop()
