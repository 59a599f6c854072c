"""How fast `gpudoctor explain` reads logs, and in how much memory: `python -m tests.bench.explain [MEGABYTES]`.

Each kind of log is written to a file of so many megabytes (100) and read in a process of its own; the file lies in
the page cache, and the time is that of the process on the CPU. `usual` is NCCL's output, progress lines and a few
tracebacks; `progress` a tqdm bar on one line; `sentences` text of which no two lines are alike, the worst for a search
that lives on repetition; `failing` repeats known symptoms without end.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WORDS = (
    *("model", "the", "loss", "token", "layer", "weight", "signal", "of", "train", "cannot", "batch", "error", "in"),
    *("time", "data", "gradient", "failed", "open"),
)


def usual(chosen: random.Random) -> Iterator[str]:
    step = 0
    while True:
        host, gpu = chosen.randrange(16), chosen.randrange(8)
        rank = host * 8 + gpu
        head = f"node{host}:{3000 + gpu}:{3100 + gpu} [{gpu}] NCCL INFO "
        for channel in range(24):
            peer = chosen.randrange(128)
            yield f"{head}Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA"
        communicator = f"comm 0x{chosen.getrandbits(44):x} rank {rank} nranks 128 cudaDev {gpu} busId {gpu:x}b000"
        yield f"{head}{communicator} - Init COMPLETE"
        yield f"{head}NET/IB : Using [0]mlx5_{gpu}:1/IB [RO]; OOB eth0:10.0.{host}.{gpu}<0>"
        for _ in range(40):
            step += 1
            clock = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d},{step % 1000:03d}"
            figures = f"loss {chosen.random() * 9:.4f} lr {chosen.random():.2e} tokens/s {chosen.randrange(9**6)}"
            yield f"[rank{gpu}]: 2026-11-22 {clock} INFO train.py:{200 + gpu} step {step} {figures}"
        if step % 20_000 == 0:
            yield f"[rank{gpu}]: Traceback (most recent call last):"
            yield f'[rank{gpu}]:   File "/home/mara/data.py", line {chosen.randrange(99)}, in fetch'
            yield f"[rank{gpu}]: OSError: file {step} is away, tried again"


def progress(chosen: random.Random) -> Iterator[str]:
    step = 0
    while True:
        parts = []
        for _ in range(2000):
            step += 1
            bar = f"{step % 100:3d}%|{'#' * (step % 40):40}| {step}/999999"
            parts.append(f"\r{bar} [{step // 60}:{step % 60:02d}<9:00, {chosen.random() * 9:.2f}it/s]")
        yield "".join(parts)


def sentences(chosen: random.Random) -> Iterator[str]:
    while True:
        yield " ".join(chosen.choices(WORDS, k=12)) + "".join(chosen.choices("ghijklmnop qrstuvwxyz", k=30))


def failing(chosen: random.Random) -> Iterator[str]:
    while True:
        rank, port = chosen.randrange(64), chosen.randrange(65535)
        head = f"node{rank // 8}:77:78 [{rank % 8}] misc/socket.cc:52 NCCL WARN "
        yield f"{head}socketStartConnect: Connect to 10.0.0.{rank}<{port}> failed : Connection refused"
        yield f"[rank{rank}]: RuntimeError: Connection closed by peer [10.0.0.{rank}]:{port}"


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "usual": usual,
    "progress": progress,
    "sentences": sentences,
    "failing": failing,
}
READ = """
import re, sys, time
from gpudoctor.explain.explain import explain
started = time.process_time(); explain([], stdin=sys.stdin.buffer); ready = time.process_time()
answer = explain(sys.argv[1:], stdin=sys.stdin.buffer)
took = time.process_time() - ready
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
print(f"{answer.bytes / 1e6 / took:6.0f} MB/s  {peak:5.0f} MiB peak  {answer.lines:>10,} lines  ", end="")
print(f"{len(answer.causes)} causes  (tables: {ready - started:.2f} s)")
"""


def write(path: Path, rows: Iterator[str], megabytes: int) -> None:
    with path.open("w") as file:
        size = 0
        for row in rows:
            file.write(row + "\n")
            size += len(row) + 1
            if size >= megabytes * 1_000_000:
                break


def main(arguments: list[str]) -> None:
    megabytes = int(arguments[0]) if arguments else 100
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            path = Path(folder) / f"{name}.log"
            write(path, kind(random.Random(7)), megabytes)
            started = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
            print(f"{name:10} {done.stdout.strip()}  (with start: {time.perf_counter() - started:.1f} s)", flush=True)
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
