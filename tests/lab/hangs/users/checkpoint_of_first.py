"""torch.distributed.checkpoint is called by the first rank only, for "saving is rank 0's job"."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def main() -> None:
    dist.init_process_group("gloo")
    am_first = not dist.get_rank()
    model = torch.nn.Linear(8, 8)
    for step in range(1000):
        print(f"rank {dist.get_rank()} step {step}", flush=True)
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
        if am_first and step % 4 == 3:
            dcp.save(model.state_dict(), checkpoint_id=f"checkpoint-{step}")  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
