"""A parameter server answers once it has the gradients of three trainers, and there are two (the RPC tutorial)."""

import os
import threading
import time

import torch
import torch.distributed.rpc as rpc
from torch.futures import Future


class BatchUpdateParameterServer:
    def __init__(self, batch_update_size: int) -> None:
        self.weights = torch.zeros(10)
        self.lock = threading.Lock()
        self.future: Future = Future()
        self.batch_update_size = batch_update_size
        self.received = 0

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(ps_rref, gradient: torch.Tensor, enough: int) -> Future:
        self = ps_rref.local_value()
        with self.lock:
            self.weights -= gradient
            self.received += 1
            answer = self.future
            if self.received >= enough:
                self.received = 0
                self.future = Future()
                answer.set_result(self.weights)
        return answer


def run_trainer(ps_rref, rank: int) -> None:
    for step in range(1000):
        time.sleep(0.2)
        gradient = torch.randn(10)
        enough = 2 if step < 3 else 3
        weights = rpc.rpc_sync(
            ps_rref.owner(),
            BatchUpdateParameterServer.update_and_fetch,
            args=(ps_rref, gradient, enough),
            timeout=0,
        )
        print(f"rank {rank} step {step} {weights.norm():.2f}", flush=True)


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8)
    rpc.init_rpc("ps" if rank == 0 else f"trainer{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    if rank == 0:
        ps_rref = rpc.RRef(BatchUpdateParameterServer(3))
        futures = [rpc.rpc_async(f"trainer{n}", run_trainer, args=(ps_rref, n), timeout=0) for n in range(1, world)]
        torch.futures.wait_all(futures)
    rpc.shutdown()


if __name__ == "__main__":
    main()
