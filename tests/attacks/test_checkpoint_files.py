"""Checkpoints made to use their reader up, to lie about sizes, or to lead it to other files."""

import json
import os
import resource
import socket
import struct
from pathlib import Path

import pytest

from gpudoctor import bounded, cost
from gpudoctor.active import ChildReply
from gpudoctor.checkpoint import archive
from gpudoctor.checkpoint.examine import FileWish, examined
from gpudoctor.checkpoint.loaded import Loaded
from gpudoctor.checkpoint.opened import opened
from gpudoctor.checkpoint.pickles import Beat, Machine
from gpudoctor.checkpoint.report import CheckpointReport
from gpudoctor.checkpoint.run import concluded, run
from gpudoctor.checkpoint.source import OpenFile
from gpudoctor.checkpoint.unreadable import BadFile
from tests.attacks.pickle_bombs import BOMBS
from tests.attacks.registry import attack, attacks
from tests.checkpoint_files import as_torch, tensor, zipped

SECONDS = 12
"""Of computing, for the smallest of files: what `bounded.LISTED` grants, and the start of Python."""


def outcome(path: Path, wish: FileWish | None = None, patience: float = 300.0) -> CheckpointReport | str:
    """What is said of a file, by a child as for a user: a report, or why there is none."""
    try:
        return run(wish or FileWish(str(path)), python="", patience=patience)
    except BadFile as error:
        assert "\n" not in str(error)
        return str(error)


def refusal(path: Path) -> str:
    with pytest.raises(BadFile) as error:
        examined(FileWish(str(path)))
    return str(error.value)


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@attacks("files", "name", *((f"checkpoint: {name}", "its reader is used up", name) for name in BOMBS))
def test_a_small_pickle_costs_little(tmp_path: Path, name: str) -> None:
    raw = BOMBS[name]()
    assert len(raw) < 3_000_000
    (tmp_path / "x.pt").write_bytes(as_torch(raw, _0=bytes(16)))
    before = spent()
    said = outcome(tmp_path / "x.pt")
    assert spent() - before < SECONDS + len(raw) / bounded.MIB * bounded.LISTED_SECONDS
    assert isinstance(said, CheckpointReport) or "file system" not in said
    assert "crash" not in str(said) and "unexpected form" not in str(said) and "killed by" not in str(said)


def in_child(code: str, seconds: float = 2.0, memory: int = 1 << 28) -> ChildReply:
    """Code that runs as the reader of a checkpoint does."""
    import sys

    from gpudoctor.active import gather, start

    whole = (
        f"from gpudoctor import cost\ncost.limit_child({seconds}, {memory})\n"
        f"from gpudoctor.checkpoint import examine\nexamine.answer(lambda: work())\n"
    )
    program = f"def work():\n    {code}\n    return {{'report': {{}}}}\n{whole}"
    return gather([start("checkpoint", [sys.executable, "-c", program], timeout=300)])["checkpoint"]


@attack(
    "files", way="checkpoint: whatever computes without end", weakness="the reader is not ended, or the disk is blamed"
)
def test_computing_without_end_is_ended_and_named() -> None:
    reply = in_child("(sum(range(10**12)))")  # one call of C: no Python in between
    assert cost.killed_by_its_bound(reply.return_code), reply
    with pytest.raises(BadFile, match="more computing than a checkpoint of its size needs"):
        concluded(reply)


@attack("files", way="checkpoint: whatever asks for memory", weakness="the machine's memory is used up")
def test_memory_without_end_is_refused_and_named() -> None:
    with pytest.raises(BadFile, match="more memory than a checkpoint of its size needs"):
        concluded(in_child("bytes(1 << 30)"))


@attack(
    "files", way="checkpoint: a reader that computes until the deadline", weakness="the file system is blamed for it"
)
def test_the_deadline_names_what_it_met() -> None:
    silent = ChildReply("checkpoint", b"", "", None, timed_out=True, stuck=False, seconds=60.0, pid=1)
    with pytest.raises(BadFile, match="though it was computed on"):
        concluded(silent, computed=3.0)
    with pytest.raises(BadFile, match="is its file system there"):
        concluded(silent, computed=0.0)


@attack("files", way="checkpoint: a pickle's keys", weakness="an order of hashes that can be foretold")
def test_no_key_has_a_hash_that_can_be_foretold() -> None:
    keys = [b"\x8a\x08" + struct.pack("<q", n) for n in (1 << 40, -(1 << 40))] + [
        b"G" + struct.pack(">d", 2.5),
        b"K\x01K\x02\x86",
    ]
    value = Machine(b"\x80\x02}(" + b"".join(key + b"N" for key in keys) + b"u.").next_value()
    assert len(value) == 4 and all(isinstance(key, str) for key in value)


# ---------------------------------------------------------------- zip


def directory_of(count: int, name: bytes, *, told: int | None = None, size: int = 0, header: int = 0) -> bytes:
    """A zip file that is a directory and nothing else."""
    entry = struct.pack(
        "<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, size, size, len(name), 0, 0, 0, 0, 0, header
    )
    body = b"PK\x03\x04" + bytes(26)
    records = (entry + name) * count
    many = min(told if told is not None else count, 65_535)
    return body + records + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, many, many, len(records), len(body), 0)


def zip64(count: int, size: int, offset: int) -> bytes:
    """A zip file that claims so much in the 64-bit end of its directory."""
    end = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, offset)
    body = b"PK\x03\x04" + bytes(26)
    return (
        body
        + end
        + struct.pack("<4sIQI", b"PK\x06\x07", 0, len(body), 1)
        + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 65_535, 65_535, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    )


def packed_pickle() -> bytes:
    return zipped({"archive/data.pkl": b"\x80\x02}." + bytes(600 << 20), "archive/version": b"3\n"}, packed=True)


def overlapping() -> bytes:
    raw = bytearray(as_torch(tensor(), _0=bytes(1000), _1=bytes(1000)))
    places = [at for at in range(len(raw)) if raw[at : at + 4] == b"PK\x01\x02"]
    for at in places[1:]:
        struct.pack_into("<I", raw, at + 42, 0)  # every entry begins where the first one does
    return bytes(raw)


LIES = struct.pack("<IQI", 0, 30, 1), struct.pack("<IQI", 0, (1 << 64) - 1, 1)
EMPTY = b"\x80\x02}."
ZIPS = [
    ("more entries told than there are", lambda: directory_of(1, b"a", told=60_000), "damaged"),
    ("entries of one name, a thousand", lambda: directory_of(1000, b"archive/data.pkl"), "two entries named"),
    ("names of sixty-four kilobytes, five hundred", lambda: directory_of(500, b"n" * 65_535), "two entries|data.pkl"),
    ("2**64-1 entries in the 64-bit directory", lambda: zip64((1 << 64) - 1, 100, 0), "more than a checkpoint"),
    ("a 64-bit directory of 2**63 bytes", lambda: zip64(1, 1 << 63, 0), "more than a checkpoint|past its end"),
    ("a 64-bit directory at byte 2**63", lambda: zip64(1, 46, 1 << 63), "past its end"),
    ("a locator that points at 2**64-1", lambda: zip64(1, 46, 0).replace(*LIES), "past its end"),
    ("an entry at a header that is none", lambda: directory_of(1, b"archive/data.pkl", header=5), "is not where"),
    ("an entry past the end", lambda: directory_of(1, b"archive/data.pkl", header=1 << 30), "past its end"),
    ("an entry that names the root", lambda: zipped({"/etc/passwd": b"x", "a/data.pkl": EMPTY}), "leads out"),
    ("an entry with a backslash", lambda: zipped({"archive\\data.pkl": b"x", "a/data.pkl": EMPTY}), "leads out"),
    ("entries that all begin at one place", overlapping, "overlap"),
]


@attacks(
    "files",
    "make, word",
    *((f"checkpoint: zip, {what}", "its directory is believed", make, word) for what, make, word in ZIPS),
)
def test_a_zip_that_lies_is_refused(tmp_path: Path, make: object, word: str) -> None:
    import re

    assert callable(make)
    (tmp_path / "x.pt").write_bytes(make())
    assert re.search(word, refusal(tmp_path / "x.pt"))


@attack("files", way="checkpoint: a pickle deflated a thousand times", weakness="it is unpacked into memory")
def test_a_packed_pickle_is_no_bomb(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(packed_pickle())
    assert (tmp_path / "x.pt").stat().st_size < 1 << 20
    assert "a zip bomb" in refusal(tmp_path / "x.pt")


@attack("files", way="checkpoint: zip, an entry's name steers a terminal", weakness="an escape sequence is printed")
def test_names_in_a_refusal_are_printable(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(zipped({"\x1b[2J\n/../x": b"", "archive/data.pkl": b"\x80\x02}."}))
    assert refusal(tmp_path / "x.pt").isprintable()


# ---------------------------------------------------------------- safetensors


def safetensors(header: object, numbers: bytes = b"", length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + numbers


def one(shape: list[object], begin: object = 0, end: object = 16, dtype: object = "F32") -> dict[str, object]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}


def shaped(size: bytes) -> bytes:
    return b'{"w":{"dtype":"F32","shape":[' + size + b'],"data_offsets":[0,16]}}'


HEADERS = [
    ("a header of 2**63 bytes", safetensors(one([4]), bytes(16), length=1 << 63), "no checkpoint|claims"),
    ("a header longer than the file", safetensors(one([4]), bytes(16), length=1 << 20), "claims"),
    ("lists nested a hundred thousand deep", safetensors(b'{"a":' + b"[" * 100_000), "no header"),
    ("a number of a million digits", safetensors(shaped(b"9" * 1_000_000), bytes(16)), "no header"),
    ("a shape with a negative size", safetensors(one([-4]), bytes(16)), "absurd shape"),
    ("a shape of 2**63", safetensors(one([1 << 63]), bytes(16)), "absurd shape|no header"),
    ("a shape of ten thousand dimensions", safetensors(one([1] * 10_000), bytes(16)), "absurd shape"),
    ("a shape with NaN", safetensors(shaped(b"NaN"), bytes(16)), "no header"),
    ("a shape with a fraction", safetensors(one([4.5]), bytes(16)), "no header"),
    ("numbers before the file", safetensors(one([4], -16, 0), bytes(16)), "damaged"),
    ("numbers that end before they begin", safetensors(one([0], 16, 0), bytes(16)), "damaged"),
    ("numbers at byte 2**62", safetensors(one([4], 1 << 62, (1 << 62) + 16), bytes(16)), "damaged"),
    ("numbers past the end", safetensors(one([1 << 20], 0, 1 << 22), bytes(16)), "cut off"),
    ("two tensors in the same bytes", safetensors({**one([4]), "v": one([4])["w"]}, bytes(16)), "damaged"),
    ("bytes that belong to nobody", safetensors(one([4]), bytes(1000)), "after its tensors"),
    ("a type that is none", safetensors(one([4], dtype="__import__('os')"), bytes(16)), "which is not read here"),
    ("a type that is smaller than told", safetensors(one([4], dtype="F64"), bytes(16)), "damaged"),
    ("a tensor that is a list", safetensors({"w": [1, 2]}, bytes(16)), "no header"),
    ("metadata that is a list", safetensors({"__metadata__": [], **one([4])}, bytes(16)), "no header"),
]


@attacks(
    "files",
    "content, word",
    *((f"checkpoint: safetensors, {what}", "its header is believed", content, word) for what, content, word in HEADERS),
)
def test_a_header_that_lies_is_refused(tmp_path: Path, content: bytes, word: str) -> None:
    import re

    (tmp_path / "x.safetensors").write_bytes(content)
    assert re.search(word, refusal(tmp_path / "x.safetensors"))


@attack("files", way="checkpoint: safetensors, a name told twice", weakness="readers do not agree which one counts")
def test_the_last_of_two_tensors_of_one_name_counts_as_in_every_json_reader(tmp_path: Path) -> None:
    one_of = '"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}'
    (tmp_path / "x.safetensors").write_bytes(safetensors(f"{{{one_of},{one_of}}}".encode(), bytes(16)))
    assert examined(FileWish(str(tmp_path / "x.safetensors"))).tensor_count == 1


# ---------------------------------------------------------------- what the file is, and what it leads to


def index(folder: Path, name: str) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"w": name}}))
    return path


@attacks(
    "files",
    "name",
    *(
        (f"checkpoint: an index that names {what}", "a file elsewhere is opened", name)
        for what, name in (
            ("an absolute path", "/etc/shadow"),
            ("a folder above", "../x.safetensors"),
            ("a path with a NUL", "x\0.safetensors"),
            ("the folder itself", "."),
            ("a Windows path", "..\\x.safetensors"),
        )
    ),
)
def test_an_index_leads_nowhere(tmp_path: Path, name: str) -> None:
    assert "which is not beside it" in refusal(index(tmp_path, name))


@attacks(
    "files",
    "make, word",
    ("an index that names a FIFO", "it is waited for", lambda path: os.mkfifo(path), "no regular file"),
    ("an index that names a folder", "it is read", lambda path: path.mkdir(), "a folder"),
    (
        "an index that names a link to /dev/zero",
        "it is read without end",
        lambda path: path.symlink_to("/dev/zero"),
        "no regular file",
    ),
    (
        "an index that names a link to itself",
        "it is followed for ever",
        lambda path: path.symlink_to(path),
        "cannot be read",
    ),
    (
        "an index that names a link to another user's file",
        "its beginning is shown to root",
        lambda path: None,
        "another user",
    ),
    way="checkpoint:",
)
def test_what_an_index_names_is_a_file_beside_it(tmp_path: Path, make: object, word: str) -> None:
    shard = tmp_path / "model-1.safetensors"
    assert callable(make)
    make(shard)
    if "user" in word:
        if os.getuid():
            pytest.skip("only root makes a link of another user")
        secret = tmp_path / "secret"
        secret.write_text("root:$6$salt$hash")
        shard.symlink_to(secret)
        os.chown(shard, 65_534, 65_534, follow_symlinks=False)
    said = refusal(index(tmp_path, shard.name))
    assert word in said and "$6$" not in said


@attack("files", way="checkpoint: an index that names a million files", weakness="each of them is opened")
def test_an_index_of_a_million_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.index.json"
    path.write_text(json.dumps({"weight_map": {f"w{n}": f"{n}.safetensors" for n in range(20_000)}}))
    assert "more than 10000 files" in refusal(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@attacks(
    "files",
    "make",
    ("a FIFO", "it is waited for", os.mkfifo),
    ("a socket", "it is waited for", a_socket),
    ("a folder", "it is read", lambda path: path.mkdir()),
    ("a link to /dev/zero", "it is read without end", lambda path: path.symlink_to("/dev/zero")),
    ("a link to itself", "it is followed for ever", lambda path: path.symlink_to(path)),
    ("a link to /proc/self/mem", "the reader's own memory is read", lambda path: path.symlink_to("/proc/self/mem")),
    way="checkpoint:",
)
def test_what_is_no_file_is_not_read(tmp_path: Path, make: object) -> None:
    path = tmp_path / "x.pt"
    assert callable(make)
    make(path)
    assert refusal(path)


@attack("files", way="checkpoint: a file of a terabyte of holes", weakness="it is read for hours")
def test_a_file_of_holes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    size = 1 << 40
    path.write_bytes(safetensors(one([size // 4], 0, size)))
    os.truncate(path, path.stat().st_size + size)
    assert "was never written" in refusal(path)


@attack("files", way="checkpoint: a file cut while it is read", weakness="zeros are taken for its numbers")
def test_a_file_cut_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors(one([1 << 22], 0, 1 << 24), bytes(1 << 24)))
    original = OpenFile.read

    def cut(self: OpenFile, offset: int, count: int) -> bytes:
        found = original(self, offset, count)
        os.truncate(path, 1 << 22)
        return found

    monkeypatch.setattr(OpenFile, "read", cut)
    assert "cut off" in refusal(path)


@attack("files", way="checkpoint: a file swapped while it is read", weakness="names of one file, numbers of another")
def test_a_file_swapped_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors(one([4]), struct.pack("<4f", 1, 2, 3, 4)))

    def swap(source: OpenFile, beat: Beat) -> Loaded:
        found = opened(source, beat)
        (tmp_path / "other").write_bytes(safetensors(one([4]), b"\xff" * 16))
        (tmp_path / "other").rename(path)
        return found

    monkeypatch.setattr("gpudoctor.checkpoint.examine.opened", swap)
    told = examined(FileWish(str(path)))
    assert told.tensors[0].nan == 0, "the file that was opened is the one that is read"


@attack("files", way="checkpoint: a folder of twenty thousand files", weakness="all of them are listed")
def test_a_folder_of_many_files(tmp_path: Path) -> None:
    for number in range(12_000):
        (tmp_path / f"{number}.txt").touch()
    assert "it is a folder" in refusal(tmp_path)


@attack("files", way="checkpoint: zip, a directory of 256 MiB is promised", weakness="it is read into memory")
def test_a_directory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(zip64(1_000_000, archive.MOST_DIRECTORY_BYTES + 1, 0))
    assert "more than a checkpoint has" in refusal(path)
