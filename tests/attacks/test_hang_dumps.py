"""`hang --dumps` and the recorders of live processes: a dump costs its own answer, within bounds that are named."""

import json
import os
import pickle
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.hang.conclude import conclude
from gpudoctor.read.job import recorder
from gpudoctor.read.job.recorder_apart import Readers
from gpudoctor.read.job.recorder_pickle import UnreadableDump
from gpudoctor.snapshot.evidence import Evidence, Recorder
from tests.attacks.alone import MEBIBYTE, alone
from tests.attacks.registry import attack, attacks

GENEROUS = 90.0
OF_FOLDER = """
from pathlib import Path
from gpudoctor.read.job import recorder
found, unread = recorder.of_folder(Path(sys.argv[1]))
answer = [sorted(each.rank for each in found), [each.what for each in unread]]
"""
MODULUS = (1 << 61) - 1
"""Python hashes a whole number by its remainder: multiples of this all hash alike."""
ENTRY = {
    "profiling_name": "nccl:all_reduce",
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 7,
    "state": "started",
    "is_p2p": False,
    "frames": [],
    "input_sizes": [[16]],
    "output_sizes": [[16]],
    "input_dtypes": ["Float"],
    "output_dtypes": ["Float"],
}


def good() -> bytes:
    return pickle.dumps({"version": "2.4", "entries": [ENTRY]}, 2)


OPENED = b"\x80\x02}q\x00(X\x07\x00\x00\x00entriesq\x01"


def colliding(count: int = 100_000) -> bytes:
    """A dictionary whose keys all fall into one slot of Python's: n entries would cost n times n comparisons."""
    keys = b"".join(
        b"\x8a\x0a" + (number * MODULUS).to_bytes(10, "little", signed=True) + b"K\x01" for number in range(1, count)
    )
    return OPENED + b"]q\x02X\x01\x00\x00\x00aq\x03}q\x04(" + keys + b"uu."


def slow() -> bytes:
    """As many instructions as are followed: a second of processor time and more."""
    return OPENED + b"(" + b"N" * 3_990_000 + b"lu."


def deep(letter: str, close: str, count: int) -> bytes:
    return ('{"entries": ' + letter * count + close * count + "}").encode()


def text_of(size: int) -> bytes:
    return b"\x80\x02X" + struct.pack("<I", size)


@attacks(
    "files",
    "raw",
    ("a pickle", "keys whose hashes collide take minutes", colliding),
    ("a pickle", "a text of 4 GiB is announced", lambda: text_of(0xFFFFFFF0) + b"x"),
    ("a pickle", "a memo of billions of places", lambda: b"\x80\x02]r\xff\xff\xff\xff."),
    (
        "a pickle",
        "each list holds the one before twice: the tree is exponential",
        lambda: b"\x80\x02]q\x00" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(200)) + b".",
    ),
    ("a pickle", "lists nested a million deep", lambda: b"\x80\x02" + b"](" * 900_000 + b"e" * 900_000 + b"."),
    ("a pickle", "tuples nested a million deep", lambda: b"\x80\x02N" + b"\x85" * 2_000_000 + b"."),
    ("a pickle", "a list that holds itself", lambda: b"\x80\x02]q\x00h\x00a."),
    ("a pickle", "a number of a megabyte", lambda: b"\x80\x02\x8b\x00\x00\x10\x00" + b"\x01" * MEBIBYTE + b"."),
    ("JSON", "nesting of a million", lambda: deep("[", "]", 1_000_000)),
    ("JSON", "objects nested a hundred thousand deep", lambda: deep('{"a":', "0" + "}" * 0, 100_000)),
    ("JSON", "a number of ten million digits", lambda: b'{"entries": [' + b"9" * 10_000_000 + b"]}"),
    ("JSON", "a number that no double holds", lambda: b'{"entries": [1e999999999]}'),
    ("JSON", "a million lists", lambda: b'{"entries": [' + b"[]," * 2_000_000 + b"[]]}"),
    (
        "JSON",
        "entries that all claim one group each",
        lambda: json.dumps(
            {"entries": [{**ENTRY, "process_group": [str(n), "x" * 90]} for n in range(50_000)]}
        ).encode(),
    ),
    (
        "JSON",
        "a group of a hundred million ranks",
        lambda: json.dumps({"entries": [ENTRY], "pg_config": {"0": {"ranks": "1," * 3_000_000}}}).encode(),
    ),
    way="hang --dumps:",
)
def test_a_dump_costs_its_own_answer_only(raw: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "trace_rank_0").write_bytes(raw())
    (tmp_path / "trace_rank_1").write_bytes(good())
    (ranks, unread), _, children = alone(OF_FOLDER, tmp_path, timeout=GENEROUS)
    assert ranks == [0, 1] or (ranks == [1] and any("trace_rank_0" in what for what in unread))
    assert children < 800 * MEBIBYTE


@attack("files", way="hang --dumps: dumps that take too long", weakness="the bound that was met is not named")
def test_the_bound_and_the_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.read.job.recorder_apart.SECONDS_OF_A_DUMP", 0.1)
    (tmp_path / "trace_rank_0").write_bytes(slow())
    (tmp_path / "trace_rank_1").write_bytes(good())
    found, unread = recorder.of_folder(tmp_path)
    assert [each.rank for each in found] == [1]
    (said,) = unread
    assert said.what.endswith("trace_rank_0")
    assert "longer than 0.1 s" in said.reason or "processor time" in said.reason


@attack("files", way="hang --dumps: dumps that take too long", weakness="ten thousand of them take a day")
def test_all_dumps_together_have_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.read.job.recorder_apart.SECONDS_OF_ALL", 0.8)
    raw = slow()
    for number in range(40):
        (tmp_path / f"trace_rank_{number}").write_bytes(raw)
    begun = time.monotonic()
    found, unread = recorder.of_folder(tmp_path)
    assert time.monotonic() - begun < GENEROUS / 2
    assert found == ()
    assert any("all together took longer than " in each.reason for each in unread)
    report = conclude(Evidence(dumps=found, unread=unread))
    assert report.exit_status == 3


@attack("files", way="hang --dumps: many dumps", weakness="their answers fill the memory of who asks")
def test_the_answers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.read.job.recorder_apart.MOST_OF_ALL", 4000)
    for number in range(40):
        (tmp_path / f"trace_rank_{number}").write_bytes(good())
    found, unread = recorder.of_folder(tmp_path)
    assert 0 < len(found) < 40
    assert any("more than" in each.reason for each in unread)


def write_fifo(path: Path) -> None:
    os.mkfifo(path)


def write_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def write_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"\x80\x02}")
        file.truncate(1 << 40)


def write_folder(path: Path) -> None:
    path.mkdir()


def write_ring(path: Path) -> None:
    path.symlink_to(path.name)


def write_proc(path: Path) -> None:
    path.symlink_to("/proc/kcore")


@attacks(
    "files",
    "write",
    ("a FIFO that nobody writes to", write_fifo),
    ("a link to a device without an end", write_zero),
    ("a file of a terabyte", write_sparse),
    ("a folder", write_folder),
    ("a link to itself", write_ring),
    ("a link to the memory of the machine", write_proc),
    way="hang --dumps: a name in the folder",
)
def test_what_is_no_regular_file_is_not_read(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "trace_rank_0")
    (tmp_path / "trace_rank_1").write_bytes(good())
    begun = time.monotonic()
    found, unread = recorder.of_folder(tmp_path)
    assert time.monotonic() - begun < GENEROUS
    assert [each.rank for each in found] == [1]
    assert len(unread) == (0 if write is write_folder else 1)


@attack("files", way="hang --dumps: the folder itself", weakness="a folder that does not answer holds the command")
def test_a_folder_that_does_not_answer_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.read.job.recorder_apart.SECONDS_OF_A_FOLDER", 0.0)
    (tmp_path / "trace_rank_1").write_bytes(good())
    found, unread = recorder.of_folder(tmp_path)
    assert found == () and "longer than" in unread[0].reason


@attack("files", way="hang --dumps: file names", weakness="a name steers the terminal or another file's answer")
def test_names_stay_names(tmp_path: Path) -> None:
    for name in ("\x1b]0;x\x07_rank_0", "a\nb_rank_1", "-rank_2", "\udcff_rank_3"):
        (tmp_path / name).write_bytes(good())
    found, _ = recorder.of_folder(tmp_path)
    assert all(isinstance(each, Recorder) for each in found)
    json.dumps([each.source for each in found]).encode()


@attack(
    "processes",
    way="hang: the flight recorder of a live process",
    weakness="one that takes for ever silences the agent",
)
def test_a_live_dump_is_read_apart() -> None:
    readers = Readers(1)
    begun = time.monotonic()
    try:
        with pytest.raises(UnreadableDump, match=r"longer than 0.1 s|processor time"):
            readers.of_bytes(slow(), "worker server of pid 7", 0.0, 0.1)
        assert readers.of_bytes(good(), "worker server of pid 7", 0.0, GENEROUS).entries, "the next one is read"
    finally:
        readers.end()
    assert time.monotonic() - begun < GENEROUS


@attack("faults", way="hang --dumps: no process can be started", weakness="dumps that were not read pass for none")
def test_without_a_child_nothing_is_read_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace_rank_1").write_bytes(good())
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    found, unread = recorder.of_folder(tmp_path)
    assert found == () and "no process can be started" in unread[0].reason
