"""A mount whose server is gone (FUSE, which nobody serves): every command that is given a file on it answers."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.requirements import require

PATIENCE = 60.0


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    require(os.geteuid() == 0 and Path("/dev/fuse").exists(), "a mount that nobody serves needs root and /dev/fuse")
    place = tmp_path_factory.mktemp("mounts") / "dead"
    place.mkdir()
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    try:
        mounted = libc.mount(b"dead", str(place).encode(), b"fuse", 0, options.encode()) == 0
        require(mounted, "this kernel mounts no FUSE here")
        yield place
    finally:
        os.close(device)  # all who wait there are let go
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


NAMED = (
    (("explain", "{}/log.txt"), 2),
    (("lint", "{}/start.sh"), 2),
    (("check", "--from", "{}/machine.json"), 2),
    (("devices", "--json", "--from={}/machine.json"), 2),
    (("hang", "--dumps", "{}"), 2),
    (("report", "{}/run"), 2),
    (("run", "--report", "{}/run", "--", "true"), 125),
)


def test_who_names_a_file_there_gets_an_answer(dead: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "gpudoctor", *(word.format(dead) for word in words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words, _ in NAMED
    ]
    try:
        for process, (words, status) in zip(started, NAMED, strict=True):
            output, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == status and not output, (words, output, errors)
            assert str(dead) in errors and "its file system has not answered for 10 s" in errors, words
    finally:
        for process in started:
            process.kill()
            process.communicate()
