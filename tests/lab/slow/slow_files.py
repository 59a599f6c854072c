"""Files that are slow to read: a file system in user space whose every read takes a while, and a cgroup's read limit.

    with slow_files(folder / "mnt", 20.0) as file: ...      # each read of `file` takes 20 ms
    with read_limit("name", folder, 1 << 20) as group: ...  # what is in `group` may read 1 MiB/s of that disk

The file system speaks FUSE's protocol (<linux/fuse.h>) with the kernel by itself, in a process of its own.
"""

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SIZE = 64 << 20
NAME = "shard-0.bin"
HEADER, ANSWER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, DESTROY, BATCH_FORGET = (
    *(1, 2, 3, 14, 15, 18, 25, 26, 36, 38, 42),
)
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)
ROOT, FILE = 1, 2
DIRECT = 1
BLKIO = Path("/sys/fs/cgroup/blkio")


def _attributes(node: int) -> bytes:
    mode = 0o040755 if node == ROOT else 0o100644
    return ATTRIBUTES.pack(node, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(operation: int, node: int, words: bytes, seconds: float) -> bytes | int:
    """What is answered, or an error's number."""
    if operation == INIT:
        _, minor, ahead, _ = struct.unpack_from("<IIII", words)
        return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), ahead, 0, 16, 12, 1 << 17, 1, 32, 0, 0)
    if operation == LOOKUP:
        if words.rstrip(b"\0") != NAME.encode():
            return errno.ENOENT
        return struct.pack("<QQQQII", FILE, 0, 3600, 3600, 0, 0) + _attributes(FILE)
    if operation == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + _attributes(node)
    if operation == OPEN:
        return struct.pack("<QIi", 1, DIRECT, 0)
    if operation == READ:
        _, start, size = struct.unpack_from("<QQI", words)
        time.sleep(seconds)
        return bytes(max(0, min(size, SIZE - start)))
    return b"" if operation in (RELEASE, FLUSH, DESTROY) else errno.ENOSYS


def serve(place: str, milliseconds: float) -> None:
    """Until it is unmounted."""
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"lab", os.fsencode(place), b"fuse", 2 | 4, options):  # MS_NOSUID, MS_NODEV
        raise OSError(ctypes.get_errno(), "mount")
    print("mounted", flush=True)
    while True:
        try:
            raw = os.read(device, 1 << 18)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            continue
        _, operation, unique, node, *_ = HEADER.unpack_from(raw)
        if operation in SILENT:
            continue
        answer = _answer(operation, node, raw[HEADER.size :], milliseconds / 1000)
        code, content = (-answer, b"") if isinstance(answer, int) else (0, answer)
        with contextlib.suppress(OSError):  # who asked has gone
            os.write(device, ANSWER.pack(ANSWER.size + len(content), code, unique) + content)


@contextlib.contextmanager
def slow_files(place: Path, milliseconds: float) -> Iterator[Path]:
    """A file, each read of which takes so long. Raises `OSError` where no file system can be mounted."""
    place.mkdir()
    words = [sys.executable, "-m", "tests.lab.slow.slow_files", str(place), str(milliseconds)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != b"mounted\n":
            raise OSError("no file system in user space can be mounted here")
        yield place / NAME
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, stderr=subprocess.DEVNULL)
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()
        place.rmdir()


@contextlib.contextmanager
def read_limit(name: str, folder: Path, bytes_a_second: int) -> Iterator[Path]:
    """A cgroup (v1) whose processes may read so much of the disk that `folder` is on."""
    group = BLKIO / f"gpudoctor-lab-{name}"
    group.mkdir()
    device = folder.stat().st_dev
    (group / "blkio.throttle.read_bps_device").write_text(f"{os.major(device)}:{os.minor(device)} {bytes_a_second}")
    try:
        yield group
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]))
