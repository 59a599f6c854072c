"""After the validation of a pipeline its last stage runs the schedule once more, to keep outputs for its writer."""

# mypy: ignore-errors
# After NVIDIA-NeMo/Megatron-Bridge pull 6025 (non-loss data on the final rank only), written anew.
import sys
import time

import torch
import torch.distributed as dist

ALL_STAGES = "--healthy" in sys.argv


class Stage:
    def __init__(self):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.layer = torch.nn.Linear(4, 4)

    @property
    def is_last(self):
        return self.rank == self.world - 1

    def recv_forward(self):
        hidden = torch.zeros(2, 4)
        dist.recv(hidden, src=self.rank - 1)
        return hidden

    def forward_only(self, micro_batches):
        outputs = []
        for _ in range(micro_batches):
            hidden = torch.rand(2, 4) if self.rank == 0 else self.recv_forward()
            out = self.layer(hidden).detach()
            if not self.is_last:
                dist.send(out, dst=self.rank + 1)
            outputs.append(out)
        return outputs


def evaluate(stage, process_outputs):
    losses = stage.forward_only(3)
    if process_outputs is not None or ALL_STAGES:
        kept = stage.forward_only(1)
        if process_outputs is not None:
            process_outputs(kept)
    return len(losses)


def main():
    dist.init_process_group("gloo")
    stage = Stage()
    writer = (lambda kept: print("kept", len(kept), flush=True)) if stage.is_last else None
    for step in range(1000):
        time.sleep(0.2)
        stage.forward_only(2)
        print(f"rank {stage.rank} step {step}", flush=True)
        if step % 5 == 4:
            evaluate(stage, writer)
            dist.barrier()


if __name__ == "__main__":
    main()
