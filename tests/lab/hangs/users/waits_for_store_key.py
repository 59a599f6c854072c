"""The others wait for rank 0 to publish the name of the run, which it does under another prefix."""

import torch
import torch.distributed as dist


class Rendezvous:
    def __init__(self) -> None:
        self.kv = dist.PrefixStore(  # type: ignore[attr-defined]
            "run", dist.distributed_c10d._get_default_store()
        )

    def name(self, step: int) -> str:
        return str(self.kv.get(f"name/{step}"))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    meeting = Rendezvous()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step == 3 and rank == 0:
            meeting.kv.set(f"names/{step}", "glad-cloud-7")
        elif step == 3:
            meeting.name(step)


if __name__ == "__main__":
    main()
