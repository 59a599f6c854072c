"""How long `gpudoctor hang` thinks about 1,024 ranks, and in how much memory.

    python -m tests.bench.hang [--ranks N]

Simulated: every rank has a dump of NCCL's flight recorder with 2,000 entries in three groups (all ranks, its node,
its rail), cut down by the reader as nodes do it, and two samples with stacks. One rank has left its loop; the others
wait in the collective that it never joins. Promised: concluded in 5 s and 500 MB (1,024 ranks, with the reading of
the evidence's JSON). Beside it: reading all of these dumps from one folder, by a child process a processor.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import torch_pickle

ENTRIES = 2000
GPUS = 8
PROMISED_SECONDS = 5.0
PROMISED_MEGABYTES = 500
TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
FRAMES = (
    ("all_reduce", f"{TORCH}/distributed_c10d.py", 2501),
    ("wrapper", f"{TORCH}/c10d_logger.py", 81),
    ("step", "/home/mara/train.py", 50),
    ("train", "/home/mara/train.py", 90),
    ("main", "/home/mara/train.py", 200),
)
START = 1_790_000_000_000_000_000


def dump(rank: int, ranks: int) -> bytes:
    """A dump as torch 2.5 writes it for NCCL; the culprit's ends one all_reduce of all ranks earlier."""
    node, rail = rank // GPUS, rank % GPUS
    config = {
        "0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))},
        f"{1 + node}": {
            "name": f"{1 + node}",
            "desc": "tp",
            "ranks": str(list(range(node * GPUS, node * GPUS + GPUS))),
        },
        f"{5000 + rail}": {"name": f"{5000 + rail}", "desc": "dp", "ranks": str(list(range(rail, ranks, GPUS)))},
    }
    names = [("0", "default_pg"), (f"{1 + node}", "tp"), (f"{5000 + rail}", "dp")]
    counts = [0, 0, 0]
    entries: list[dict[str, Any]] = []
    for number in range(ENTRIES):
        which = 0 if number == ENTRIES - 1 else (1, 1, 2, 0)[number % 4]
        if which == 0 and number == ENTRIES - 1 and rank == ranks // 3:
            break
        counts[which] += 1
        last = number == ENTRIES - 1
        frames = [{"name": name, "filename": filename, "line": line + number % 9} for name, filename, line in FRAMES]
        entries.append(
            {
                "frames": frames,
                "record_id": 7000 + number,
                "pg_id": which,
                "process_group": names[which],
                "collective_seq_id": 900 + counts[which],
                "p2p_seq_id": 0,
                "op_id": number,
                "profiling_name": "nccl:all_reduce" if which != 1 else "nccl:_all_gather_base",
                "time_created_ns": START + number * 1_000_000 + rank,
                "input_sizes": [[25_000_000 + number % 5]],
                "input_dtypes": ["BFloat16"],
                "output_sizes": [[25_000_000 + number % 5]],
                "output_dtypes": ["BFloat16"],
                "state": "started" if last else "completed",
                "time_discovered_started_ns": START + number * 1_000_000,
                "time_discovered_completed_ns": None if last else START + number * 1_000_001,
                "retired": not last,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    return torch_pickle.dumps({"version": "2.5", "pg_config": config, "pg_status": {}, "entries": entries})


def evidence(ranks: int, folder: Path, dumps: Path) -> Path:
    """The file that `capture` would write of such a job."""
    from msgspec.structs import replace

    from gpudoctor.read.job import recorder
    from gpudoctor.snapshot.evidence import to_json
    from tests.hang_jobs import a_job, is_in, waits

    members = []
    for rank in range(ranks):
        host = f"node{rank // GPUS:03d}"
        made = is_in(rank, "user code", host=host) if rank == ranks // 3 else waits(rank, host=host)
        raw = (dumps / f"comm_lib_trace_rank_{rank}").read_bytes()
        members.append(replace(made, evidence=replace(made.evidence, recorder=recorder.read(raw, f"dump {rank}"))))
    path = folder / "evidence.json"
    path.write_bytes(to_json(a_job(*members).evidence))
    return path


def child(what: str, place: str) -> None:
    """One measurement in a fresh process; prints JSON."""
    from gpudoctor.hang.conclude import conclude
    from gpudoctor.hang.recorders import compare
    from gpudoctor.read.job import recorder
    from gpudoctor.snapshot.evidence import from_json

    began, since = time.process_time(), time.monotonic()
    parts: dict[str, Any] = {}
    if what == "folder":
        found, unread = recorder.of_folder(place)
        parts = {"dumps": len(found), "unread": len(unread)}
        parts["read"] = round(time.process_time() - began, 2)
        agreement = compare({one.rank: one for one in found if one.rank is not None}, len(found))
        parts["compare"] = round(time.process_time() - began - parts["read"], 2)
        parts["behind"] = agreement.first.behind if agreement.first else ()
    else:
        raw = Path(place).read_bytes()
        parts["file MB"] = round(len(raw) / 1e6)
        read = from_json(raw)
        del raw
        parts["read"] = round(time.process_time() - began, 2)
        report = conclude(read)
        parts["conclude"] = round(time.process_time() - began - parts["read"], 2)
        job = report.jobs[0]
        parts["cause"] = [(cause.cause, cause.confidence, cause.ranks) for cause in job.causes[:1]]
        parts["state"] = job.state
    parts["seconds"] = round(time.process_time() - began, 2)
    parts["CPU of children"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 2)
    parts["wall"] = round(time.monotonic() - since, 2)
    parts["peak MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    print(json.dumps(parts))


def measured(what: str, place: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.hang", "--child", what, str(place)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{what}: {found}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dumps = folder / "dumps"
        dumps.mkdir()
        for rank in range(arguments.ranks):
            (dumps / f"comm_lib_trace_rank_{rank}").write_bytes(dump(rank, arguments.ranks))
        found = measured("evidence", evidence(arguments.ranks, folder, dumps))
        good = found["seconds"] <= PROMISED_SECONDS and found["peak MB"] <= PROMISED_MEGABYTES
        print(f"  promised: {PROMISED_SECONDS} s and {PROMISED_MEGABYTES} MB: {'kept' if good else 'BROKEN'}")
        size = sum(path.stat().st_size for path in dumps.iterdir())
        print(f"{arguments.ranks} dumps, {size / 1e6:.0f} MB")
        measured("folder", dumps)


if __name__ == "__main__":
    main()
