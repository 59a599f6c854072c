"""Ring attention passes keys and values on as often as its own sequence has chunks."""

# mypy: ignore-errors
# No thread; the kind of context parallel attention whose number of turns is not agreed upon.
import sys
import time

import torch
import torch.distributed as dist

PADDED = "--healthy" in sys.argv


class Ring:
    def __init__(self):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()

    def turn(self, kv):
        came = torch.empty_like(kv)
        work = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, kv, (self.rank + 1) % self.world),
                dist.P2POp(dist.irecv, came, (self.rank - 1) % self.world),
            ]
        )
        for one in work:
            one.wait()
        return came


def attend(ring, chunks):
    kv = torch.rand(4)
    out = torch.zeros(4)
    for _ in range(chunks):
        out += kv.softmax(0)
        kv = ring.turn(kv)
    return out


def main():
    dist.init_process_group("gloo")
    ring = Ring()
    for step in range(1000):
        time.sleep(0.2)
        length = 48 if PADDED or ring.rank != 2 or step != 5 else 30
        out = attend(ring, length // 16)
        print(f"rank {ring.rank} step {step}", flush=True)
        total = out.sum()
        dist.all_reduce(total)


if __name__ == "__main__":
    main()
