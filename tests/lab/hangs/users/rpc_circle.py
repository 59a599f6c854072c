"""Parameter server by RPC with one thread each: the handler of rank 1 calls back the rank that waits for it."""

import os

import torch.distributed.rpc as rpc

GO_ON = ["no"]


def pull(caller: str, step: int) -> int:
    if step >= 3:
        return int(rpc.rpc_sync(caller, lookup, args=(step,), timeout=0))
    return step


def lookup(step: int) -> int:
    import threading

    gate = threading.Event()
    if GO_ON[0] == "no":
        gate.wait()
    return step


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1, rpc_timeout=7200, init_method="env://")
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options
    )
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            rpc.rpc_sync("worker1", pull, args=("worker0", step), timeout=0)
        elif step == 1:
            break
    rpc.shutdown()


if __name__ == "__main__":
    main()
