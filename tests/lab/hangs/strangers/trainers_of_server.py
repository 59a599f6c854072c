"""A parameter server that averages a gradient of each trainer: one trainer has a shorter data set."""

# mypy: ignore-errors
# After the batch-updating parameter server of torch's RPC tutorials.
import os
import sys
import threading
import time

import torch
import torch.distributed.rpc as rpc

LENGTHS = {1: 400, 2: 400 if "--healthy" in sys.argv else 6}


class ParameterServer:
    def __init__(self, trainers):
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.lock = threading.Lock()
        self.trainers = trainers
        self.received = []
        self.future = torch.futures.Future()

    def get_model(self):
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(server_ref, gradients):
        self = server_ref.local_value()
        with self.lock:
            self.received.append(gradients)
            future = self.future
            if len(self.received) >= self.trainers:
                for number, weight in enumerate(self.model.parameters()):
                    weight.grad = torch.stack([sent[number] for sent in self.received]).mean(0)
                self.optimizer.step()
                self.received = []
                self.future = torch.futures.Future()
                future.set_result(self.model)
        return future


class Trainer:
    def __init__(self, server_ref, rank):
        self.server, self.rank = server_ref, rank

    def batches(self):
        for _ in range(LENGTHS[self.rank]):
            yield torch.rand(8, 4)

    def train(self):
        model = self.server.rpc_sync().get_model()
        for step, batch in enumerate(self.batches()):
            time.sleep(0.3)
            model.zero_grad()
            model(batch).square().mean().backward()
            print(f"rank {self.rank} step {step}", flush=True)
            gradients = [weight.grad for weight in model.parameters()]
            model = rpc.rpc_sync("server", ParameterServer.update_and_fetch, args=(self.server, gradients), timeout=0)


def run_trainer(server_ref, rank):
    Trainer(server_ref, rank).train()
    return rank


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    names = {0: "server", **{number: f"trainer{number}" for number in range(1, world)}}
    rpc.init_rpc(names[rank], rank=rank, world_size=world)
    if rank == 0:
        server_ref = rpc.RRef(ParameterServer(world - 1))
        futures = [
            rpc.rpc_async(names[number], run_trainer, args=(server_ref, number), timeout=0)
            for number in range(1, world)
        ]
        print("rank 0 step 1\nrank 0 step 5", flush=True)
        done = torch.futures.wait_all(futures)
        print("trained by", done, flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
