"""One rank of a job that is to end badly: `rank.py END [--torch]`. It knows nothing of gpudoctor.

Every rank says its first steps and leaves a mark in $READY; when all have, the rank that END is for ends as END says,
and the others go on until something ends them. So standard output is the same each time.
"""

import ctypes
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable

STEPS = 4
LONGEST = 45.0
READY = os.environ["READY"]


def number(*names: str) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def world() -> int:
    return max(1, number("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"))


def say(text: str) -> None:
    """In one piece: unbuffered, print would write the end of a line by itself, and another rank's word between."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def mark(rank: int) -> None:
    with open(os.path.join(READY, f".{rank}"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(READY, f".{rank}"), os.path.join(READY, str(rank)))


def wait_for_all(ranks: int) -> None:
    deadline = time.monotonic() + LONGEST
    while len([name for name in os.listdir(READY) if name.isdecimal()]) < ranks and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.6)  # a real job has run for longer than that when it ends


# ------------------------------------------------ ends


def raises() -> None:
    raise ValueError("the batch is empty")


def exits_without_a_word() -> None:
    sys.exit(3)


def exits_at_once() -> None:
    os._exit(1)


def exits_with_usage() -> None:
    import argparse

    argparse.ArgumentParser(prog="train.py").parse_args(["--learning-rat", "0.1"])


def reads_nothing() -> None:
    ctypes.string_at(0)


def overflows_stack() -> None:
    nested: list[object] = []
    for _ in range(2_000_000):
        nested = [nested]
    sys.setrecursionlimit(10_000_000)
    repr(nested)


def aborts() -> None:
    os.abort()


def terminates() -> None:
    os.write(2, b"terminate called after throwing an instance of 'std::length_error'\n  what():  vector::reserve\n")
    os.abort()


def maps_a_cut_file() -> None:
    path = os.path.join(READY, "cut")
    with open(path, "wb+") as file:
        file.truncate(1 << 16)
        mapped = mmap.mmap(file.fileno(), 1 << 16)
        file.truncate(0)
        mapped[0]


def divides() -> None:
    os.kill(os.getpid(), signal.SIGFPE)


def takes_all_memory() -> None:
    held = []
    while True:
        held.append(bytearray(4 << 20))


def takes_more_than_its_limit() -> None:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), used + (256 << 20)))
    takes_all_memory()


def fills_the_disk() -> None:
    with open(os.path.join(os.environ["FULL"], "checkpoint.pt"), "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)


def lacks_gpu_memory() -> None:
    import torch

    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.20 GiB is "
        "free. Including non-PyTorch memory, this process has 77.88 GiB memory in use."
    )


def lacks_a_file() -> None:
    open("/data/shards/train-00017.bin", "rb")


def lacks_a_module() -> None:
    import flash_attn_of_nobody  # type: ignore[import-not-found]  # noqa: F401


def lacks_a_setting() -> None:
    settings: dict[str, dict[str, float]] = {"optimizer": {}}
    settings["optimizer"]["lr"]


def asserts() -> None:
    batch = [1, 2]
    assert len(batch) == 4, "short batch"


def sees_nan() -> None:
    raise FloatingPointError("Loss is nan, stopping training")


def port_is_taken() -> None:
    import socket

    first, second = socket.socket(), socket.socket()
    first.bind(("127.0.0.1", 0))
    first.listen()
    second.bind(first.getsockname())


def uses_up_processor_time() -> None:
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1, int(used) + 3))
    while True:
        pass


def writes_too_long_a_file() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    with open(os.path.join(READY, "long"), "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def loader_is_killed() -> None:
    import torch

    class Data(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            return torch.zeros(1)

    for _ in torch.utils.data.DataLoader(Data(), num_workers=1):
        time.sleep(0.1)


def tool_fails() -> None:
    subprocess.run([sys.executable, "-c", "import os; os._exit(9)"], check=True)


def opens_too_many_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = [open(os.devnull) for _ in range(100)]
    print(len(held))


def reads_bad_json() -> None:
    json.loads('{"lr": 0.1,')


def swallows_and_exits() -> None:
    try:
        raises()
    except ValueError:
        os._exit(4)


def ends_well() -> None:
    pass


def waits() -> None:
    """Something outside ends it: SLURM, which looks twice a minute, after a minute."""
    time.sleep(6 * LONGEST)


def main() -> None:
    end = sys.argv[1]
    rank, ranks = number("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), world()
    train(rank, ranks, end, "--torch" in sys.argv)


def train(rank: int, ranks: int, end: str, with_torch: bool) -> None:
    reduce: Callable[[], object] | None = None
    if with_torch and ranks > 1:
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")

        def together() -> object:
            return dist.all_reduce(torch.ones(1))

        reduce = together

    for step in range(STEPS):
        if reduce:
            reduce()
        say(f"rank {rank} step {step} loss {1.0 / (step + 1):.3f}")
    mark(rank)
    wait_for_all(ranks)
    if rank == ranks - 1 or end == "ends_well":
        globals()[end]()
    elif reduce:
        reduce()
    else:
        time.sleep(LONGEST)
    say(f"rank {rank} done")


if __name__ == "__main__":
    main()
