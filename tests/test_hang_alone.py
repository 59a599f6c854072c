"""`gpudoctor hang --pid` of a program that is no job: real Pythons that stand, and one that works."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.read.job import processes
from gpudoctor.read.system import System

pytestmark = pytest.mark.usefixtures("forks")
WAITS_FOR_QUEUE = """
import queue
def load(tasks):
    return tasks.get()
print("stands", flush=True)
load(queue.Queue())
"""
LOCKS_TWICE = """
import threading
lock = threading.Lock()
def save():
    with lock:
        print("saved", flush=True)
with lock:
    print("stands", flush=True)
    save()
"""
WORKS = """
import time
print("stands", flush=True)
while True:
    sum(range(200_000))
    time.sleep(0.01)
"""
SERVES = """
import queue, threading, time
tasks = queue.Queue()
def feed():
    while True:
        time.sleep(20)
        tasks.put(1)
threading.Thread(target=feed, daemon=True).start()
print("stands", flush=True)
while True:
    tasks.get()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="hang reads /proc")
@pytest.mark.parametrize(
    ("program", "state", "cause", "line"),
    [
        (WAITS_FOR_QUEUE, "hung", "queue-wait", 4),
        (LOCKS_TWICE, "hung", "lock-held", 5),
        (WORKS, "running", None, None),
        (SERVES, "slow", None, None),
    ],
    ids=["queue", "lock", "works", "serves"],
)
def test_a_program_without_ranks_is_looked_at(
    program: str, state: str, cause: str | None, line: int | None, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(program)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as standing:
        assert standing.stdout is not None
        standing.stdout.readline()
        try:
            command = [sys.executable, "-m", "gpudoctor", "hang", "--json", "--pid", str(standing.pid)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=200)
            assert standing.poll() is None, "it did not live through being looked at"
        finally:
            standing.kill()
    (job,) = json.loads(done.stdout)["jobs"]
    first = job["causes"][0] if job["causes"] else None
    assert (job["state"], first and first["cause"]) == (state, cause), job
    if first is not None:
        assert (first["where"]["line"], first["ranks"]) == (line, [0])


def test_what_is_no_python_is_refused() -> None:
    with subprocess.Popen(["sleep", "100"]) as asleep:
        command = [sys.executable, "-m", "gpudoctor", "hang", "--pid", str(asleep.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        asleep.kill()
    assert done.returncode == 2
    assert "no process of a distributed job" in done.stderr and "no Python" in done.stderr


DRIVER = """
import subprocess, sys
rank = "print('stands', flush=True); import time; time.sleep(100)"
subprocess.run(["sh", "-c", 'RANK=0 WORLD_SIZE=2 "$0" -c "$1"; exit', sys.executable, rank])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="hang reads /proc")
@pytest.mark.parametrize(("program", "is_alone"), [(DRIVER, False), (WORKS, True)], ids=["driver", "works"])
def test_what_has_started_a_job_is_none_by_itself(program: str, is_alone: bool) -> None:
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as standing:
        assert standing.stdout is not None
        standing.stdout.readline()
        try:
            found = processes.find(System(), doctor=1 << 22, alone=standing.pid).processes
        finally:
            os.killpg(standing.pid, signal.SIGKILL)
    assert [process.pid for process in found if process.alone] == ([standing.pid] if is_alone else [])
