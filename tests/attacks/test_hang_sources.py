"""`hang`: a source file that a frame names costs its own answer, and neither the agent nor the look."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.read.job.sources import Sources
from gpudoctor.snapshot.evidence import Frame, Thread
from tests.attacks.alone import MEBIBYTE, alone
from tests.attacks.registry import attack, attacks
from tests.lab.requirements import require

GENEROUS = 60.0
GOOD = "def main():\n    if rank == 0:\n        dist.barrier()\n"
READ_BESIDE = """
import os, time
from gpudoctor.snapshot.evidence import Frame, Thread
from gpudoctor.read.job.sources import Sources
bad, line, good, seconds = sys.argv[1:]
frames = (Frame("main", bad, int(line)), Frame("main", good, 3))
before = peak(resource.RUSAGE_SELF)
sources = Sources()
try:
    found = sources.of({os.getpid(): Thread(id=os.getpid(), frames=frames)}, time.monotonic() + float(seconds))
finally:
    sources.end()
answer = [[context.text for context in found[os.getpid()] if context.file == good], before]
"""
"""Both files are asked for by one process, the bad one first; the texts of the good one that came."""


def stands_at(*places: tuple[Path, int]) -> Thread:
    return Thread(id=os.getpid(), frames=tuple(Frame("main", str(path), line) for path, line in places))


def read_beside(bad: Path, line: int, good: Path) -> tuple[Sources, list[str]]:
    """Both files are asked for by one process, the bad one first; the texts that came."""
    sources = Sources()
    begun = time.monotonic()
    try:
        found = sources.of({os.getpid(): stands_at((bad, line), (good, 3))}, time.monotonic() + GENEROUS)
    finally:
        sources.end()
    assert time.monotonic() - begun < GENEROUS
    return sources, [context.text for context in found[os.getpid()] if context.file == str(good)]


@attacks(
    "files",
    "text, line",
    ("2 MiB of short lines take gigabytes as a tree", b"a\n" * MEBIBYTE, 7),
    ("parentheses nested beyond the parser", b"x = " + b"(" * 100_000, 1),
    ("an expression that recurses in the parser", b"-" * 200_000 + b"1", 1),
    ("a tree deeper than Python's own recursion", b"x = " + b"+".join([b"a"] * 60_000), 1),
    (
        "indentation nested beyond the tokenizer",
        b"".join(b" " * depth + b"if a:\n" for depth in range(99)) + b" " * 99 + b"x\n",
        100,
    ),
    ("one line of megabytes", b"x = [" + b"1," * MEBIBYTE + b"]", 1),
    ("an encoding that is none of a text", b"# coding: zip\nx = 1\n", 2),
    ("a number of a million digits", b"x = " + b"9" * 1_000_000, 1),
    ("names in no order of Unicode", "x\u202e = '\ud7ff'\n".encode(), 1),
    way="hang: a user's source file",
)
def test_a_source_file_costs_its_own_answer_only(text: bytes, line: int, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_bytes(text)
    good.write_text(GOOD)
    (texts, before), own, children = alone(READ_BESIDE, bad, line, good, GENEROUS, timeout=GENEROUS)
    assert texts == ["dist.barrier()"]
    assert own - before < 64 * MEBIBYTE, "nothing is parsed here"
    assert children < 700 * MEBIBYTE


@attack("files", way="hang: a user's source file", weakness="a parser that takes for ever")
def test_a_file_that_meets_the_bound_of_time_is_named_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpudoctor.read.job import sources

    monkeypatch.setattr(sources, "SECONDS_OF_A_LINE", 0.0001)
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_bytes(b"a\n" * 100_000)
    read, _ = read_beside(bad, 7, good)
    (first, *_) = read.unread
    assert str(bad) in first.what and "longer than" in first.reason
    frames = stands_at((bad, 8), (bad, 9))
    assert read.of({os.getpid(): frames}, time.monotonic() + GENEROUS) == {os.getpid(): ()}
    assert sum(str(bad) in each.what for each in read.unread) == 1


@attack("files", way="hang: a user's source file", weakness="a file that never comes to its end")
def test_a_device_or_fifo_is_not_opened(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text(GOOD)
    for name in ("zero", "fifo"):
        bad = tmp_path / name
        if name == "zero":
            bad.symlink_to("/dev/zero")
        else:
            os.mkfifo(bad)
        assert read_beside(bad, 1, good)[1] == ["dist.barrier()"]


@attack("faults", way="hang: a user's source file", weakness="no process can be started to read it")
def test_what_cannot_be_started_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / "good.py"
    good.write_text(GOOD)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    read, texts = read_beside(good, 2, good)
    assert texts == []
    assert "no process can be started" in read.unread[0].reason


@attack("faults", way="hang: the child that reads source files", weakness="it outlives an agent that is killed")
def test_a_reader_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    require(sys.platform.startswith("linux"), "needs /proc")
    program = (
        "import os, sys\n"
        "from gpudoctor.read.apart import Apart, NotAnswered\n"
        "reader = Apart('gpudoctor.read.job.source_child', 'x')\n"
        "try:\n    reader.ask(b'{}', 20.0)\n"
        "except NotAnswered as error:\n    assert reader._child is not None, error\n"
        "print(reader._child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=GENEROUS, check=False
    )
    pid = int(done.stdout)
    deadline = time.monotonic() + GENEROUS
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


@attack("faults", way="hang: a user's source file", weakness="a machine that others use reads the next file too late")
def test_what_was_read_in_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may take longer there, and the look does not: else all that had been read was thrown away with it."""
    from gpudoctor import crowded

    monkeypatch.setattr(crowded, "slowdown", lambda: 100.0)
    good, late = tmp_path / "good.py", tmp_path / "late.py"
    for file in (good, late):
        file.write_text(GOOD)
    sources = Sources()
    try:
        sources.of({os.getpid(): stands_at((good, 3))}, time.monotonic() + GENEROUS)
        child = sources._reader._child
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
        begun = time.monotonic()
        found = sources.of({os.getpid(): stands_at((good, 3), (late, 3))}, begun + 0.5)
    finally:
        sources.end()
    assert time.monotonic() - begun < GENEROUS
    assert [context.file for context in found[os.getpid()]] == [str(good)]
    assert [(str(late) in each.what, each.reason) for each in sources.unread] == [
        (True, "reading it took longer than there was time for")
    ]
