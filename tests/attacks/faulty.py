"""Runs a command of gpudoctor where something is missing: a limit, a stream, a folder, the network.

What was broken is broken for that command alone: in its shell, or in namespaces of its own.
"""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gpudoctor.snapshot import to_json
from tests.machines.hand_built import MACHINES

GPUDOCTOR = (sys.executable, "-m", "gpudoctor")
CHECK = ("check", "--no-torch", "--timeout", "60", "--expect", "cpu")
PATIENCE = 250.0
"""Seconds; only a broken test waits for it."""
MARK = "GPUDOCTOR_TEST_MARK"
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and signals of Linux")
Done = subprocess.CompletedProcess[str]


def words(prepare: str, *arguments: str, unshare: str = "") -> list[str]:
    """The command line: `prepare` is shell, run before the command in the same process."""
    enter = ["unshare", *unshare.split()] if unshare else []
    return [*enter, "sh", "-c", f'{prepare or ":"}\nexec "$@"', "sh", *GPUDOCTOR, *arguments]


def faulty(
    prepare: str, *arguments: str, unshare: str = "", cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> Done:
    """How the command ended. With `unshare` (its options) the test is skipped where that is not allowed."""
    if unshare:
        private(unshare)
    done = subprocess.run(
        words(prepare, *arguments, unshare=unshare),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=PATIENCE,
        cwd=cwd,
        env={**os.environ, **(more or {})},
    )
    assert_plain(done)
    return done


def private(unshare: str) -> None:
    """Skip where no namespaces of one's own are to be had."""
    if not sys.platform.startswith("linux") or os.getuid() != 0:
        pytest.skip("only root makes namespaces of its own")
    probe = "mount -t tmpfs none /mnt" if "-m" in unshare.split() else "true"
    done = subprocess.run(["unshare", *unshare.split(), "sh", "-c", probe], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"unshare {unshare}: {done.stderr.decode(errors='replace').strip()}")


def assert_plain(done: Done) -> None:
    """Whatever it says, it says as gpudoctor: no traceback, no bug that is confessed, no end by a signal."""
    said = done.stdout + done.stderr
    for word in ("Traceback", "internal error", "Exception ignored", "Fatal Python"):
        assert word not in said, done
    assert done.returncode in (0, 1, 2, 3, 129, 130, 141, 143), done


def one_line(done: Done, *words: str, status: int) -> None:
    """It says why there is no answer, in one line that holds `words`."""
    assert done.returncode == status, done
    assert done.stderr.startswith("gpudoctor: ") and done.stderr.count("\n") == 1, done
    for word in words:
        assert word in done.stderr, done


def snapshot(folder: Path) -> Path:
    file = folder / "machine.json"
    file.write_bytes(to_json(MACHINES["broken-8xh100"]()))
    return file


def checkpoint(folder: Path) -> Path:
    file = folder / "model.pt"
    torch.save({"w": torch.ones(64, 64)}, file)
    return file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not so in time: {what}"
        time.sleep(0.02)


@contextmanager
def marked() -> Iterator[tuple[dict[str, str], Callable[[], list[int]]]]:
    """An environment that names everything that is started in it, and a look at which of these processes live.

    In the end none does: those that are left are a failure, and are ended.
    """
    mark = f"{MARK}={uuid.uuid4()}"

    def living() -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    try:
        yield {**os.environ, MARK: mark.partition("=")[2]}, living
        wait_until(lambda: not living(), "all have ended")
    finally:
        for pid in living():
            os.kill(pid, 9)
