"""Folders as `gpudoctor run` leaves them, written by hand."""

import datetime
import json
from pathlib import Path
from typing import Any

from gpudoctor.snapshot.evidence import to_json
from tests.bench.html import one_elsewhere_evidence

STARTED = 1_790_000_000.0
HOST = "gpu-node-17"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 79.10 GiB "
    "of which 1.20 GiB is free."
)


def failed_run(
    folder: Path, *, ranks: int = 4, gpus: int = 8, hours: float = 1.0, stall_ranks: int = 8, frames: int = 60
) -> Path:
    """Steps until it slows down, a silence in which `hang` has looked, and an end by GPU memory."""
    folder.mkdir(mode=0o700)
    seconds, last = hours * 3600, ranks - 1
    every = seconds / 400
    lines: list[tuple[float, str]] = [(0.0, f"[{HOST}] torchrun starts {ranks} ranks")]
    step, at = 0, 30.0
    while at < seconds - 60:
        slow = 3.0 if 0.4 < at / seconds < 0.5 else 1.0
        silent = 0.7 < at / seconds < 0.8
        if not silent:
            step += 10
            stamp = datetime.datetime.fromtimestamp(STARTED + at, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
            lines += [
                (at, f"[rank{rank}]:{stamp},000 step {step - rank} loss 2.{step % 97:02}") for rank in range(ranks)
            ]
        at += every * slow
    lines += [
        (seconds - 2, f"[rank{last}]:Traceback (most recent call last):"),
        (seconds - 2, f'[rank{last}]:  File "/home/mara/train.py", line 88, in <module>'),
        (seconds - 2, f"[rank{last}]:    loss.backward()"),
        (seconds - 2, f"[rank{last}]:{OUT_OF_MEMORY}"),
        (seconds - 1, f"{HOST}: rank {last} has ended"),
    ]  # fmt: skip
    (folder / "output.log").write_text("".join(f"{text}\n" for _, text in lines))
    said, sizes = 0, []
    for when, text in lines:
        said += len(text) + 1
        sizes.append((when, said))
    use: list[dict[str, Any]] = [{"began": STARTED, "monotonic": 100.0}]
    pause = max(5.0, seconds / 700)
    for number in range(1, int(seconds / pause)):
        now = number * pause
        told = max((size for when, size in sizes if when <= now), default=0)
        is_silent = 0.7 < now / seconds < 0.8
        busy = [[gpu, 3 if is_silent else 40 if gpu == 3 else 93, int(60e9 + now * 4e6), 600.5] for gpu in range(gpus)]
        cores, memory = 0.1 if is_silent else 3.5, int(4e9 + now * 1e6)
        use.append({"t": round(now, 1), "said": told, "cores": cores, "memory": memory, "processes": 5, "gpus": busy})
    (folder / "use.jsonl").write_text("".join(json.dumps(line) + "\n" for line in use))
    record = {
        "command": ["torchrun", f"--nproc-per-node={ranks}", "/home/mara/train.py"],
        "folder": "/home/mara",
        "host": HOST,
        "pid": 4711,
        "started": STARTED,
        "seconds": seconds,
        "status": 1,
        "signals": [{"number": 10, "seconds": seconds * 0.3, "pid": 1, "sender": "slurmstepd"}],
        "lost": [],
    }
    (folder / "run.json").write_text(json.dumps(record))
    found = {
        "lines": [
            f"cause: rank {last} ran out of GPU memory (0.85 of 1)  [gpu-out-of-memory]",
            "fix: Take smaller batches.",
            "start it again: after a fix",
        ],
        "cause": "gpu-out-of-memory",
        "confidence": 0.85,
        "restart": "after a fix",
        "exclude": [],
    }
    (folder / "found.json").write_text(json.dumps(found))
    evidence = one_elsewhere_evidence(stall_ranks, time=STARTED + seconds * 0.75, frames=frames)
    (folder / "hang-1-evidence.json").write_bytes(to_json(evidence))
    (folder / "hang-1.json").write_text("{}")
    (folder / "lock").touch()
    return folder
