"""How much memory and time does `gpudoctor checkpoint` take on a large file?

    python -m tests.bench.checkpoint [--gib 4] [--fix] [--folder DIR]

Writes a checkpoint of so many GiB of random-looking float32 by hand (torch would hold it in memory), reads it, and
prints the largest resident set of the doctor and of each child it started (VmHWM, the kernel's own count), and MB/s.
Nothing is asserted here; the promise is less than 300 MB for 4 GB.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.checkpoint import torch_writer
from gpudoctor.checkpoint.copied import Copied, CopyPlan, PlacedTensor
from gpudoctor.checkpoint.source import Region

PROMISE_MEGABYTES = 300
TENSOR_BYTES = 64 * 1024 * 1024


def write(path: Path, size: int) -> None:
    """Tensors of 64 MiB: one block of finite numbers again and again."""
    count = size // TENSOR_BYTES
    block = bytearray(random.Random(0).randbytes(1 << 22))
    block[3::4] = bytes(byte & 0xBF for byte in block[3::4])  # exponents below 2^63
    storages = tuple(Copied(str(n), Region(0, TENSOR_BYTES), 0, TENSOR_BYTES) for n in range(count))
    shape = (4096, TENSOR_BYTES // 4 // 4096)
    tensors = tuple(
        PlacedTensor(f"module.layers.{n}.weight", "float32", shape, (shape[1], 1), n, 0, True, TENSOR_BYTES // 4)
        for n in range(count)
    )

    def pieces() -> Iterator[tuple[int, Iterator[bytes]]]:
        for number in range(count):
            yield number, iter([bytes(block)] * (TENSOR_BYTES // len(block)))

    with path.open("wb") as file:
        torch_writer.write(file, CopyPlan(storages, tensors), pieces(), big_endian=False)


def peaks(pid: int, found: dict[str, int], ended: threading.Event) -> None:
    """VmHWM in KiB of a process and its descendants, by what they run, until it ended."""
    while not ended.wait(0.02):
        waiting = [pid]
        while waiting:
            each = waiting.pop()
            try:
                status = Path(f"/proc/{each}/status").read_text()
                command = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                for task in Path(f"/proc/{each}/task").iterdir():
                    waiting += map(int, (task / "children").read_text().split())
            except (OSError, ValueError):
                continue
            high = re.search(r"VmHWM:\s+(\d+)", status)
            name = next((word for word in ("examine", "checkpoint.fix", "workers") if word in command), "doctor")
            if high:
                found[name] = max(found.get(name, 0), int(high[1]))


def measure(arguments: list[str], size: int) -> None:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "gpudoctor", "checkpoint", *arguments], stdout=subprocess.DEVNULL)
    found: dict[str, int] = {}
    ended = threading.Event()
    watcher = threading.Thread(target=peaks, args=(process.pid, found, ended))
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - started
    ended.set()
    watcher.join()
    words = ", ".join(f"{name} {kib * 1024 / 1e6:.0f} MB" for name, kib in sorted(found.items()))
    print(f"  {seconds:.1f} s, {size / seconds / 1e6:.0f} MB/s, exit status {status}; largest resident: {words}")
    print(f"  of any process: {max(found.values()) * 1024 / 1e6:.0f} MB (promised < {PROMISE_MEGABYTES})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--fix", action="store_true", help="write a clean copy too")
    parser.add_argument("--folder", default=None, help="where the file lies; default: the folder for temporary files")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder:
        path = Path(folder) / "large.pt"
        write(path, int(wanted.gib * 1024**3))
        size = path.stat().st_size
        print(f"{size / 1e9:.2f} GB, {os.cpu_count()} cores")
        print("names and shapes only:")
        measure([str(path), "--no-values"], size)
        print("every number read:")
        measure([str(path)], size)
        if wanted.fix:
            print("a clean copy, compared and loaded by torch:")
            measure([str(path), "--fix", str(path.with_name("clean.pt"))], size)


if __name__ == "__main__":
    main()
