"""Does the rank program measure what a minimal loop measures? All-reduce on gloo, two ranks, 1 to 64 MiB.

    python -m tests.bench.collective [--rounds N] [--ranks N]

In the same ranks both measure every size in turn, N times, each going first every other time; printed is the median
of the rounds' ratios of bus bandwidth, beside the promise: within 3%. `loop` shares no line with the rank program.
Nothing is asserted here: on a busy machine the ratio says little, and the spread beside it shows that. More ranks
than cores make it worse.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).parent.parent.parent / "gpudoctor" / "workers"
SIZES = tuple(1 << power for power in range(20, 27))
PROMISE = 0.03


def loop(torch: Any, size: int) -> float:
    """Bus bandwidth in GB/s, by the loop that everybody writes."""
    dist = torch.distributed
    n = dist.get_world_size()
    x = torch.full((size // 4,), 0.0)  # not zeros(), whose pages are there only after they are written to
    for _ in range(5):
        dist.all_reduce(x)
    times = []
    for _ in range(3):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(20):
            dist.all_reduce(x)
        times.append((time.perf_counter() - start) / 20)
    t = torch.tensor([sorted(times)[1]], dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return float(size / t.item() * 2 * (n - 1) / n / 1e9)


def as_a_rank(rounds: int, sizes: Sequence[int]) -> None:
    """In every rank: both, in turn. Rank 0 prints (size, ours, the loop's) of each round as JSON lines."""
    sys.path.insert(0, str(WORKERS))
    import importlib
    import os

    collective = importlib.import_module("collective")
    kinds = importlib.import_module("collective_kinds")
    measure = importlib.import_module("collective_measure")
    import torch
    import torch.distributed

    rows: list[dict[str, Any]] = []
    rank = collective.Rank(lambda said: rows.append(said) if said["type"] == "row" else None)
    launch: dict[str, Any] = {"backend": "gloo", "dtype": "float32", "warmup": 5, "iterations": 20, "repeats": 3}
    launch |= {"check": True, "seconds_per_size": 0.0, "timeout": 300.0}
    torch.distributed.init_process_group("gloo")
    tester = measure.Tester(torch, launch, torch.device("cpu"), rank)
    tester.agree_on_room()

    def ours(size: int) -> float:
        tester.measure(kinds.KINDS["all_reduce"], "all_reduce", size)
        return float(rows.pop()["bus_bandwidth"]) if rows else 0.0

    for size in sizes:
        for turn in range(rounds):
            found = (ours(size), loop(torch, size)) if turn % 2 else (loop(torch, size), ours(size))[::-1]
            if os.environ["RANK"] == "0":
                print(json.dumps([size, *found]), flush=True)
    torch.distributed.destroy_process_group()


def compare(rounds: int, ranks: int, sizes: Sequence[int]) -> dict[int, list[tuple[float, float]]]:
    """Size -> (ours, the loop's) of each round. Raises `SystemExit` when the ranks fail."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    # torchrun leaves a folder of logs (torchelastic_*) in TMPDIR.
    with tempfile.TemporaryDirectory(prefix="gpudoctor-torchrun-", ignore_cleanup_errors=True) as folder:
        plan = [f"--rounds={rounds}", "--mebibytes", *(str(size >> 20) for size in sizes)]
        done = subprocess.run(
            [*command, __file__, "--as-a-rank", *plan],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "TMPDIR": folder},
        )
    if done.returncode:
        raise SystemExit(done.stderr.decode(errors="replace")[-3000:])
    found: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for line in done.stdout.splitlines():
        size, own, other = json.loads(line)
        found[size].append((own, other))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[size >> 20 for size in SIZES])
    parser.add_argument("--as-a-rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sizes = [size << 20 for size in options.mebibytes]
    if options.as_a_rank:
        return as_a_rank(options.rounds, sizes)
    print(f"{'bytes':>10} {'gpudoctor':>10} {'loop':>10} {'ratio':>7}   ratios of the rounds")
    medians = []
    for size, pairs in compare(options.rounds, options.ranks, sizes).items():
        ratios = [own / other for own, other in pairs]
        medians.append(statistics.median(ratios))
        own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{size:10d} {own:10.3f} {other:10.3f} {medians[-1]:7.3f}   {min(ratios):.2f} to {max(ratios):.2f}")
    print(f"median of all sizes {statistics.median(medians):.3f}; promised: within {PROMISE:.0%} of 1")
    return None


if __name__ == "__main__":
    main()
