"""kill -9: of gpudoctor while others work for it, and of one of its children. Nobody stays, nothing is made up."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.faulty import (
    GPUDOCTOR,
    LINUX,
    PATIENCE,
    faulty,
    marked,
    names,
    snapshot,
    wait_until,
)
from tests.attacks.registry import attack, attacks
from tests.patients import torch_package

pytestmark = [LINUX, pytest.mark.timeout(300)]


def running(living: Callable[[], list[int]], *words: bytes) -> list[int]:
    """Those of them whose command line has one of these words."""
    found = []
    for pid in living():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if any(word in line for word in words):
            found.append(pid)
    return found


@attacks("faults", "command, rank",
    ("nccl-test: kill -9 of gpudoctor while its ranks run", "a rank stays", "nccl-test", b"collective"),
    ("train-test: kill -9 of gpudoctor while its ranks run", "a rank stays", "train-test", b"train"),
    ("amp: kill -9 of gpudoctor while its worker runs", "the worker stays", "amp", b"amp\0"),
)  # fmt: skip
def test_the_head_is_killed(command: str, rank: bytes, tmp_path: Path) -> None:
    with marked() as (environment, living):
        process = subprocess.Popen(
            [*GPUDOCTOR, command],
            env={**environment, "TMPDIR": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: [pid for pid in running(living, rank) if pid != process.pid], f"a rank of {command}")
        process.kill()
        process.wait()
    assert names(tmp_path) == []


@attack("faults", way="capture -o: kill -9 while it reads", weakness="an earlier capture is lost")
def test_a_capture_that_is_killed(tmp_path: Path) -> None:
    folder = torch_package(tmp_path / "slow", "import time\ntime.sleep(600)\n")
    out = tmp_path / "out"
    out.mkdir()
    (out / "machine.json").write_text("old")
    command = [*GPUDOCTOR, "capture", "--python", sys.executable, "-o", str(out / "machine.json"), "--timeout", "90"]
    with marked() as (environment, living):
        process = subprocess.Popen(command, env={**environment, "PYTHONPATH": str(folder)})
        wait_until(lambda: len(living()) > 2, "its children wait")
        process.kill()
        process.wait()
    assert names(out) == ["machine.json"] and (out / "machine.json").read_text() == "old"


SLOW_TORCH = "import time\ntime.sleep(600)\n"


@attacks("faults", "victim, says",
    ("kill -9 of the child that imports torch", "the rest is lost", b"torch_facts", "killed by SIGKILL"),
    ("kill -9 of the child that reads the host", "what it owed is OK", b"read.local", "killed by SIGKILL"),
    way="check:",
)  # fmt: skip
def test_a_child_is_killed(victim: bytes, says: str, tmp_path: Path) -> None:
    """The host's reader is held up by a sitecustomize, torch by itself; both are killed while they are."""
    slow = torch_package(tmp_path, SLOW_TORCH)
    held = "import sys, time\nif any('read.local' in word for word in sys.orig_argv): time.sleep(600)\n"
    if victim == b"read.local":
        slow.joinpath("sitecustomize.py").write_text(held)
    with marked() as (environment, living):
        process = subprocess.Popen(
            [*GPUDOCTOR, "check", "--python", sys.executable, "--timeout", "80", "--json"],
            env={**environment, "PYTHONPATH": str(slow)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: running(living, victim), "the child runs")
        if victim == b"read.local":
            wait_until(lambda: running(living, b"torch_facts"), "torch is imported")
            os.kill(running(living, b"torch_facts")[0], signal.SIGKILL)
        os.kill(running(living, victim)[0], signal.SIGKILL)
        output, errors = process.communicate(timeout=PATIENCE)
    assert says in output and errors == "", (output[-2000:], errors)
    outcomes = {each["check"]: each["outcome"] for each in json.loads(output)["results"]}
    assert (outcomes["kernel-too-old"] == "ok") == (victim == b"torch_facts")


@attacks(
    "faults",
    "answer",
    ("a child of check answers with half a message", "it is taken for an answer", '{"torch": {"ver'),
    ("a child of check answers with a list", "its shape is trusted", '[1, 2, {"torch": 3}]'),
    ("a child of check answers with numbers for texts", "their types are trusted", '{"version": 7, "names": 3}'),
    ("a child of check answers with nested lists, 100,000 deep", "the doctor's stack", "[" * 100000),
    ("a child of check answers with NaN and 1e999", "a number breaks the report", '{"version": NaN, "x": 1e999}'),
    ("a child of check answers with bytes of no encoding", "a decoder fails", "\\377\\376"),
)
def test_a_child_that_answers_garbage(answer: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    (tmp_path / "answer").write_text(answer)
    python.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        cd {tmp_path}
        printf '@gpudoctor '
        if grep -q '^.377' answer; then printf "$(cat answer)"; else cat answer; fi
        printf '\\n@gpudoctor {{"phase": "x'
        """)
    )
    python.chmod(0o755)
    done = faulty("", "check", "--python", str(python), "--timeout", "60", "--json")
    results = json.loads(done.stdout)["results"]
    assert not [each for each in results if each["outcome"] == "crashed"], done
    assert not [each for each in results if each["group"] == "pytorch" and each["outcome"] == "ok"], done


@attack("faults", way="check --from: the file is cut while it is read", weakness="half a machine is diagnosed")
def test_a_file_that_shrinks(tmp_path: Path) -> None:
    file = snapshot(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(b"")
    done = faulty("", "check", "--from", str(file))
    assert done.returncode == 3 and "Cannot tell" in done.stdout and "empty" in done.stdout, done
    for part, status in ((1, 2), (len(whole) // 2, 3), (len(whole) - 2, 3)):
        file.write_bytes(whole[:part])
        done = faulty("", "check", "--from", str(file))
        assert done.returncode == status and done.stdout == "" and done.stderr.count("\n") == 1, done
