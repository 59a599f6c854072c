"""Words that are new go from the main process to all as an object; one rank believes that its cache has them."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Vocabulary:
    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.revision = 0

    def up_to_date(self, revision: int) -> bool:
        return self.revision >= revision

    def refresh(self, revision: int) -> None:
        if self.up_to_date(revision):
            return
        parcel = [self.words | {f"word {revision}": revision} if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(parcel, src=0, device=torch.device("cpu"))
        self.words, self.revision = parcel[0], revision


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vocabulary = Vocabulary()
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 1 and not healthy:
            vocabulary.revision = 100  # what an old file says
        if step % 2 == 0:
            vocabulary.refresh(step // 2 + 1)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
