"""RPC: a learner's weights are handed out from a version on, and one actor asks for one that never comes."""

# mypy: ignore-errors
import os
import sys
import threading
import time

import torch
import torch.distributed.rpc as rpc

SERVER = None


class Weights:
    def __init__(self):
        self.changed = threading.Condition()
        self.version, self.values = 0, torch.zeros(4)
        self.seen = {}

    def at_least(self, version):
        with self.changed:
            while self.version < version:
                self.changed.wait()
            return self.version, self.values

    def push(self, actor, gradient, workers):
        with self.changed:
            self.seen[actor] = gradient
            if len(self.seen) == workers:
                self.values = self.values - 0.1 * torch.stack(list(self.seen.values())).mean(0)
                self.seen.clear()
                self.version += 1
                self.changed.notify_all()


def get(version):
    return SERVER.at_least(version)


def push(actor, gradient, workers):
    SERVER.push(actor, gradient, workers)


def act(rank, world):
    wanted, version = 0, 0
    for step in range(2000):
        time.sleep(0.25)
        version, values = rpc.rpc_sync("learner", get, args=(wanted,), timeout=0)
        rpc.rpc_sync("learner", push, args=(rank, values + torch.rand(4), world - 1), timeout=0)
        print(f"rank {rank} step {step} version {version}", flush=True)
        wanted = version + 1
        if rank == 2 and step == 6 and "--healthy" not in sys.argv:
            wanted += 1  # it counts the round that it has missed


def main():
    global SERVER
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8)
    if rank == 0:
        SERVER = Weights()
    rpc.init_rpc("learner" if rank == 0 else f"actor{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    if rank == 0:
        print("rank 0 step 6", flush=True)
    else:
        act(rank, world)
    rpc.shutdown()


if __name__ == "__main__":
    main()
