"""The hangs of the lab on a real GPU, with the real NCCL: `python -m tests.gpu.hangs FOLDER [NAME...] [--after]`.

All ranks share GPU 0; NCCL_HOSTID makes NCCL take each for one of a host of its own. What is read of a job is kept in
FOLDER as by tests/lab/torch_nccl/evidence.py, so that the same answers can be had again without a GPU:

    python -m tests.lab.torch_nccl.evidence FOLDER NAME... --judge
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.hangs.on_gpus import EVERY, ON_GPUS
from tests.lab.hangs.training import SCENARIOS, running
from tests.lab.torch_nccl import evidence, looks, score, scripts

SETTLES = 12.0
"""Ranks that wait for a GPU never rest: after so many seconds a job is where it stays."""
SET_DEVICE = re.compile(r"torch\.cuda\.set_device\((?P<rank>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.hangs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of tests/lab/hangs; none: all that NCCL is for")
    parser.add_argument("--healthy", action="store_true", help="the same programs without the fault")
    parser.add_argument("--after", action="store_true", help="wait for the time-out: logs and dumps are kept too")
    parser.add_argument("--at-once", type=int, default=4)
    chosen = parser.parse_intermixed_args()
    names = chosen.names or [*ON_GPUS, *SCENARIOS]
    names = [name for name in names if EVERY[name].healthy or not chosen.healthy]

    def take(name: str) -> str:
        try:
            return captured(name, chosen.folder, healthy=chosen.healthy, after=chosen.after)
        except Exception as error:  # the others go on
            return f"FAILED {name}: {type(error).__name__}: {error}"[-1500:]

    with ThreadPoolExecutor(chosen.at_once) as pool:
        for said in pool.map(take, names):
            print(said, flush=True)
    rows = [row for name in names for row in evidence.judged(name, chosen.folder, healthy=chosen.healthy)]
    for row in rows:
        if not score.is_kept(row):
            print(score.line(row))
    print(f"\n{score.table(rows)}")
    return int(any("wrong" in score.judged(row).values() for row in rows))


def on_one_gpu(folder: Path) -> None:
    """No line moves: each rank takes GPU 0, and is a host of its own for NCCL."""
    for script in folder.rglob("*.py"):
        text = script.read_text()
        host = r'__import__("os").environ.update(NCCL_HOSTID=str(\g<rank>)); torch.cuda.set_device(0)'
        script.write_text(SET_DEVICE.sub(host, text))


def captured(name: str, folder: Path, *, healthy: bool, after: bool) -> str:
    scenario = EVERY[name]._replace(truly=True, polls=SETTLES)
    own = folder / f"{name}{'-healthy' if healthy else ''}"
    shutil.rmtree(own, ignore_errors=True)
    (own / "dumps").mkdir(parents=True)
    programs = scripts.write(own / "scripts", evidence.LIMIT if after else 600)
    on_one_gpu(programs)
    variables = {
        "PYTHONPATH": "",  # what the lab forks cannot use CUDA
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_RAS_ADDR": f"localhost:{looks.free_port()}",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1000",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(own / "dumps" / "nccl_trace_rank_"),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(own / "pipe_rank_"),
    }
    begin = time.monotonic()
    with running(scenario, own, healthy=healthy, environment=variables, scripts=programs) as job:
        stands = time.monotonic()
        words = ("capture", "--pid", str(job.pid), "--output", str(own / "evidence.json"))
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", *words], timeout=looks.LOOK, capture_output=True, text=True
        )
        looked = time.monotonic()
        if after and not healthy:
            looks.wait_for_end(job, evidence.LIMIT)
    read = evidence.recorders(own / "evidence.json")
    told = f"capture: {done.returncode} {done.stderr[-500:]}" if done.returncode else ""
    return (
        f"{own.name}: stood after {stands - begin:.1f} s, looked for {looked - stands:.1f} s, {read} recorders {told}"
    )


if __name__ == "__main__":
    sys.exit(main())
