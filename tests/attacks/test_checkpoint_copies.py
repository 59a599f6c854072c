"""`checkpoint --fix`: copies that are far larger than their file, and folders in which somebody else moves things."""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.checkpoint import fix, run
from gpudoctor.checkpoint.examine import FileWish, examined
from gpudoctor.checkpoint.unreadable import BadFile
from tests.attacks.pickle_bombs import number, text
from tests.attacks.registry import attack
from tests.checkpoint_files import as_torch, tensor, zipped

MIB = 1 << 20


def views(count: int, elements: int) -> bytes:
    """A checkpoint of tensors that all look at one storage, each at all of it."""
    one = tensor("NAME", count=elements, shape=(elements,))[4:-2]
    body = b"".join(one.replace(text(b"NAME"), text(b"w%d" % n)) for n in range(count))
    return as_torch(b"\x80\x02}(" + body + b"u.", _0=bytes(4 * elements))


def expanded(size: int) -> bytes:
    """A tensor of so many elements, all of which are one number (stride 0)."""
    whole = tensor(count=1, shape=(1,))
    return as_torch(
        whole.replace(b"(" + number(1) + b"t(" + number(1) + b"t", b"(" + number(size) + b"t(K\0t"), _0=bytes(4)
    )


def copied(raw: bytes, folder: Path, out: str, *, force: bool = False) -> int:
    """Bytes of the copy. Raises `Unreadable`."""
    (folder / "x.pt").write_bytes(raw)
    (folder / "temporary").touch()
    told: int = fix.copied(FileWish(str(folder / "x.pt"), out=out, force=force), str(folder / "temporary"))[
        "size_bytes"
    ]
    return told


@attack(
    "files", way="checkpoint --fix: a storage that a thousand tensors share", weakness="gigabytes of 65 KiB are written"
)
def test_shared_storages_are_not_multiplied(tmp_path: Path) -> None:
    raw = views(1000, 16_384)
    with pytest.raises(BadFile, match=r"62\.\d MiB, \d+ times the .* KiB of the file, because 1000 tensors") as error:
        copied(raw, tmp_path, "out.safetensors")
    assert "--force" in str(error.value) and "\n" not in str(error.value)
    assert (tmp_path / "temporary").stat().st_size == 0, "nothing was written"
    assert copied(raw, tmp_path, "out.pt") < 8 * len(raw), "where they stay shared, the copy is small"


@attack("files", way="checkpoint --fix --force", weakness="the refusal cannot be overruled by who knows better")
def test_who_insists_gets_the_copy(tmp_path: Path) -> None:
    raw = views(40, 16_384)
    with pytest.raises(BadFile, match="--force"):
        copied(raw, tmp_path, "out.safetensors")
    assert copied(raw, tmp_path, "out.safetensors", force=True) > 40 * 65_536


@attack("files", way="checkpoint --fix: a tensor expanded from one number", weakness="a terabyte is written")
@pytest.mark.parametrize("out", ["out.pt", "out.safetensors"])
def test_an_expanded_tensor_is_not_written_out(tmp_path: Path, out: str) -> None:
    try:
        assert copied(expanded(1 << 38), tmp_path, out) < MIB
    except BadFile:
        assert (tmp_path / "temporary").stat().st_size == 0


@attack("files", way="checkpoint --fix: entries deflated two hundred times", weakness="the copy fills the disk")
def test_packed_entries_are_not_written_out(tmp_path: Path) -> None:
    elements = 15 * MIB
    raw = zipped(
        {"archive/data.pkl": tensor(count=elements, shape=(elements,)), "archive/data/0": bytes(4 * elements)},
        packed=True,
    )
    with pytest.raises(BadFile, match="because its entries are packed; nothing was written"):
        copied(raw, tmp_path, "out.pt")


@attack("files", way="checkpoint --fix: a copy larger than the disk", weakness="the disk is filled")
def test_room_is_looked_at_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    little = os.statvfs_result((4096, 4096, 100, 10, 10, 1, 1, 1, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: little)
    with pytest.raises(BadFile, match="are free where it goes"):
        copied(views(2, 1 << 20), tmp_path, "out.pt")
    assert (tmp_path / "temporary").stat().st_size == 0


@attack("files", way="checkpoint --fix: the temporary file becomes a link", weakness="root writes over another file")
def test_a_link_in_the_place_of_the_copy_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(views(1, 4))
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "temporary").symlink_to("precious")
    with pytest.raises((OSError, BadFile)):
        fix.copied(FileWish(str(tmp_path / "x.pt"), out="out.pt"), str(tmp_path / "temporary"), "1:2")
    assert (tmp_path / "precious").read_bytes() == b"precious"


@attack(
    "files", way="checkpoint --fix: the temporary file becomes a hard link", weakness="root writes over another file"
)
def test_another_file_in_the_place_of_the_copy_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(views(1, 4))
    (tmp_path / "temporary").touch()
    about = (tmp_path / "temporary").stat()
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "temporary").unlink()
    os.link(tmp_path / "precious", tmp_path / "temporary")
    with pytest.raises(BadFile, match="in the place of the copy"):
        fix.copied(
            FileWish(str(tmp_path / "x.pt"), out="out.pt"),
            str(tmp_path / "temporary"),
            f"{about.st_dev}:{about.st_ino}",
        )
    assert (tmp_path / "precious").read_bytes() == b"precious"


@attack("files", way="checkpoint --fix: the finished copy becomes a link", weakness="root changes another file's mode")
def test_the_mode_of_no_other_file_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.pt").write_bytes(views(1, 4))
    secret = tmp_path / "secret"
    secret.write_text("root:...")
    secret.chmod(0o600)
    original = run.reload

    def swapped(temporary: str, *more: object) -> str:
        os.unlink(temporary)  # noqa: PTH108
        os.symlink(secret, temporary)  # noqa: PTH211
        return "not reloaded" if more else original(temporary, "", {}, "", 1.0, None)

    monkeypatch.setattr(run, "reload", swapped)
    wish = FileWish(str(tmp_path / "x.pt"), out=str(tmp_path / "out.pt"))
    with pytest.raises(BadFile, match="in the place of the copy"):
        run.fixed(wish, examined(FileWish(wish.file)), sys.executable, 300.0, None)
    assert secret.stat().st_mode & 0o777 == 0o600 and secret.read_text() == "root:..."
    assert not (tmp_path / "out.pt").exists()


@attack("files", way="checkpoint --fix: a dangling link at its place", weakness="a file is made where the link points")
def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(views(1, 4))
    (tmp_path / "out.pt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadFile, match="exists already"):
        examined(FileWish(str(tmp_path / "x.pt"), out=str(tmp_path / "out.pt")))
    (tmp_path / "temporary").touch()
    with (tmp_path / "temporary").open("rb") as file, pytest.raises(BadFile, match="meanwhile"):
        run.name_it(str(tmp_path / "temporary"), tmp_path / "out.pt", file.fileno())
    assert not (tmp_path / "nowhere").exists()


@attack(
    "files", way="checkpoint --fix: the temporary file", weakness="others read the weights before they are finished"
)
def test_the_temporary_file_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.pt").write_bytes(views(1, 4))
    seen: list[int] = []

    def look(module: str, arguments: list[str], *more: object) -> dict[str, object]:
        seen.append(Path(arguments[1]).stat().st_mode & 0o777)
        raise BadFile("enough")

    monkeypatch.setattr(run, "ask", look)
    wish = FileWish(str(tmp_path / "x.pt"), out=str(tmp_path / "out.pt"))
    with pytest.raises(BadFile, match="enough"):
        run.fixed(wish, examined(FileWish(wish.file)), sys.executable, 60.0, None)
    assert seen == [0o600] and [path.name for path in tmp_path.iterdir()] == ["x.pt"]


@attack(
    "files", way="checkpoint --fix: killed in the middle", weakness="the input is lost, or half a copy has its name"
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at how far it is")
def test_killed_in_the_middle_it_has_harmed_nothing(tmp_path: Path) -> None:
    raw = as_torch(tensor(count=32 * MIB, shape=(32 * MIB,)), _0=struct.pack("<f", 1.5) * (32 * MIB))
    (tmp_path / "x.pt").write_bytes(raw)
    command = [sys.executable, "-m", "gpudoctor", "checkpoint", "x.pt", "--fix", "out.pt", "--no-values"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 100
        while not any(path.stat().st_size for path in tmp_path.glob(".out.*")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "out.pt").exists() and (tmp_path / "x.pt").read_bytes() == raw


@attack(
    "files",
    way="checkpoint --fix: a disk that is full in the middle",
    weakness="half a copy stays, or the input is harmed",
)
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="mounts a small tmpfs of its own")
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    raw = as_torch(tensor(count=MIB, shape=(MIB,)), _0=bytes(4 * MIB))
    (tmp_path / "x.pt").write_bytes(raw)
    (tmp_path / "small").mkdir()
    # The room is believed to be there, so that the write itself has to fail.
    program = (
        "import os, sys; from gpudoctor.checkpoint import fix; from gpudoctor.checkpoint.examine import FileWish\n"
        "fix.HEADROOM_BYTES = -(1 << 30)\n"
        "try: fix.copied(FileWish('x.pt', out='out.pt'), 'small/temporary')\n"
        "except fix.BadFile as error: print(error)"
    )
    script = (
        f'mount -t tmpfs -o size=1m none small && touch small/temporary && {sys.executable} -c "$PROGRAM"; umount small'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PROGRAM": program},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(done.stderr)
    assert "No space left on device" in done.stdout, done
    assert (tmp_path / "x.pt").read_bytes() == raw
