"""Stands in for srun: `python fake_srun.py OPTIONS... sh -c SCRIPT NAME ARGUMENTS...` runs the tasks on this machine.

As the real one (22.05.8): standard input goes to every task, lines come back labelled and cut after 1,024 bytes.
GPUDOCTOR_FAKE_SRUN is JSON: {"refuse": "why"} or {"nodes": ["name of task 0", ...], "environment": {...}}.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import IO, Any

PIECE = 1024


def main() -> int:
    story = json.loads(os.environ.get("GPUDOCTOR_FAKE_SRUN", "{}"))
    if "refuse" in story:
        print(f"srun: error: {story['refuse']}", file=sys.stderr)
        return 1
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    command = sys.argv[1 + len(options) :]
    count = next(int(word.partition("=")[2]) for word in options if word.startswith("--ntasks="))
    tasks = [start(command, task, story) for task in range(count)]
    lock = threading.Lock()
    readers = [
        threading.Thread(target=label, args=(task, stream, sink, lock))
        for task, process in enumerate(tasks)
        for stream, sink in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer))
    ]
    for reader in readers:
        reader.start()
    threading.Thread(target=spread, args=(tasks,), daemon=True).start()
    for task, process in enumerate(tasks):
        status = process.wait()
        if status < 0:
            print(f"srun: error: {node(story, task)}: task {task}: Killed", file=sys.stderr, flush=True)
    for reader in readers:
        reader.join()
    os._exit(0)


def node(story: dict[str, Any], task: int) -> str:
    return story["nodes"][task] if "nodes" in story else f"n{task + 1}"


def start(command: list[str], task: int, story: dict[str, Any]) -> subprocess.Popen[bytes]:
    own = {"SLURM_PROCID": str(task), "SLURM_STEP_ID": "7", "SLURMD_NODENAME": node(story, task)}
    environment = os.environ | own | story.get("environment", {})
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def spread(tasks: list[subprocess.Popen[bytes]]) -> None:
    while chunk := os.read(0, 1024):
        for process in tasks:
            with contextlib.suppress(OSError):
                stdin(process).write(chunk)
                stdin(process).flush()
    for process in tasks:
        with contextlib.suppress(OSError):
            stdin(process).close()


def stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def label(task: int, stream: IO[bytes], sink: IO[bytes], lock: threading.Lock) -> None:
    for line in stream:
        line = line.rstrip(b"\n")
        pieces = [line[begin : begin + PIECE] for begin in range(0, len(line), PIECE)] or [b""]
        with lock:
            for piece in pieces:
                sink.write(b"%d: %b\n" % (task, piece))
            sink.flush()


sys.exit(main())
