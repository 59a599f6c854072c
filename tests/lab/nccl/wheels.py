"""NVIDIA's and torch's own wheels, from the package index: downloaded, thinned and kept outside of the repository.

    folder = nccl("2.30.7")               # holds libnccl.so.2
    site = torch("2.14.1")                # goes first on PYTHONPATH: its CUDA build of torch is imported, with NCCL

They are proprietary or large, so they are never committed; `python -m tests.lab.nccl fetch` and `python -m
tests.lab.torch_nccl fetch` put them into the cache, $GPUDOCTOR_LAB_CACHE or ~/.cache/gpudoctor-lab. A test that finds
none skips and says so; where the lab is required (requirements.py) it downloads them, and skips if that fails.

Device code and debug sections are most of a library and nothing here reads them: they become holes.
"""

import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NCCL_RELEASES = {
    "2.21.5": "nvidia-nccl-cu12",
    "2.27.5": "nvidia-nccl-cu12",
    "2.28.9": "nvidia-nccl-cu13",
    "2.29.7": "nvidia-nccl-cu13",
    "2.30.7": "nvidia-nccl-cu13",
    "2.32.3": "nvidia-nccl-cu13",
}
"""The package that carries each release."""
TORCH_RELEASES = {"2.14.1": "2.30.7", "2.13.0": "2.29.7", "2.8.0": "2.27.3", "2.4.1": "2.20.5"}
"""The release of NCCL that each torch is built with."""
ONLY_OF_TORCH = {"2.27.3": "nvidia-nccl-cu12", "2.20.5": "nvidia-nccl-cu12"}
"""NCCL of a torch for CUDA 12, which is asked for nothing by itself."""
NEWEST_NCCL, NEWEST_TORCH = "2.32.3", "2.14.1"
NOT_NEEDED = ("torch/include/", "torch/share/", "torch/test/", "torch/bin/protoc", "torch/bin/test")
LARGE = 1 << 20
"""Libraries below are left as they are."""
KEEP_SIZE, PUNCH_HOLE = 1, 2
PAGE = 4096
DOWNLOAD_WITHIN = 240.0
"""Seconds for one wheel: torch and its NCCL, one after the other, are over before a test's time is."""
ASKED_AGAIN_AFTER = 3600.0


def cache() -> Path:
    own = os.environ.get("GPUDOCTOR_LAB_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpudoctor-lab"


def nccl_folder(release: str) -> Path:
    """Where libnccl.so.2 of a release is, or is to be."""
    return cache() / f"nccl-{release}" / "nvidia/nccl/lib"


def torch_site(release: str) -> Path:
    """Where torch of a release and its NCCL are, or are to be: for the interpreter that runs this."""
    return cache() / f"torch-{release}-cp{sys.version_info.major}{sys.version_info.minor}"


def nccl(release: str) -> Path:
    """The folder of libnccl.so.2, for a test: skips without it."""
    present(nccl_folder(release), lambda: fetch_nccl(release), f"NCCL {release}", "nccl")
    return nccl_folder(release)


def torch(release: str) -> Path:
    """The folder of torch and NCCL, for a test: skips without it."""
    present(torch_site(release), lambda: fetch_torch(release), f"torch {release} for CUDA", "torch_nccl")
    return torch_site(release)


def present(place: Path, fetch: Callable[[], object], what: str, command: str) -> None:
    """It is there, or can be had where the lab is required; else the test is skipped.

    Also where the lab is required: an index that does not answer is no fault of what is tested. It is asked once, and
    not again by each process that tests."""
    if place.is_dir():
        return
    reason = f"no {what} in {cache()}: python -m tests.lab.{command} fetch"
    if os.environ.get("GPUDOCTOR_REQUIRE_LAB") == "1":
        reason = why_not(place, fetch, what)
    if not place.is_dir():
        pytest.skip(reason)


def why_not(place: Path, fetch: Callable[[], object], what: str) -> str:
    """Have it, or tell why it cannot be had; one process at a time."""
    failed = cache() / f"{place.name}.failed"
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{place.name}.asked").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_fresh(failed):
            return failed.read_text()
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as error:
            failed.write_text(f"{what} cannot be downloaded: {error}")
            return failed.read_text()
    return ""


def is_fresh(failed: Path) -> bool:
    """Whether a download has failed a short while ago."""
    try:
        return time.time() - failed.stat().st_mtime < ASKED_AGAIN_AFTER
    except OSError:
        return False


def fetch_nccl(release: str) -> Path:
    into(cache() / f"nccl-{release}", [f"{NCCL_RELEASES[release]}=={release}"])
    return nccl_folder(release)


def fetch_torch(release: str) -> Path:
    own = TORCH_RELEASES[release]
    package = (NCCL_RELEASES | ONLY_OF_TORCH)[own]
    into(torch_site(release), [f"torch==={release}", f"{package}=={own}"])  # not 2.13.0+cpu
    return torch_site(release)


def into(place: Path, packages: list[str]) -> None:
    """Download packages, unpack and thin them; a place is there when it is whole."""
    if place.is_dir():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():  # another process has done it meanwhile
            return
        draft = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        try:
            for package in packages:
                unpack(download(package, draft), draft)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def download(package: str, folder: Path) -> Path:
    """The wheel: from the cache where one was put there by hand, else from the index."""
    name, release = re.split("===?", package)
    pattern = f"{name.replace('-', '_')}-{release}-*.whl"
    kept = sorted((cache() / "wheels").glob(pattern))
    if kept:
        return kept[0]
    few = ("--quiet", "--no-deps", "--retries", "1", "--timeout", "30")
    command = [sys.executable, "-m", "pip", "download", *few, "--dest", str(folder), package]
    subprocess.run(command, check=True, timeout=DOWNLOAD_WITHIN)
    (wheel,) = folder.glob(pattern)
    return wheel


def unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.startswith(NOT_NEEDED):
                continue
            path = Path(archive.extract(member, folder))
            if ".so" in path.name and path.stat().st_size > LARGE:
                thin(path)
    if wheel.parent == folder:
        wheel.unlink()


def thin(library: Path) -> None:
    """Give the disk back what nothing reads; where the file system cannot, the library stays whole."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    with library.open("r+b") as file:
        for offset, size in heavy_sections(file.fileno()):
            first, last = -(-offset // PAGE) * PAGE, (offset + size) // PAGE * PAGE
            if last > first:
                libc.fallocate(file.fileno(), KEEP_SIZE | PUNCH_HOLE, first, last - first)


def heavy_sections(file: int) -> Iterator[tuple[int, int]]:
    """Offset and size of device code and debug sections of a 64-bit ELF file."""
    head = os.pread(file, 64, 0)
    if head[:5] != b"\x7fELF\x02":
        return
    (table,) = struct.unpack_from("<Q", head, 40)
    size, count, names_at = struct.unpack_from("<HHH", head, 58)
    sections = [struct.unpack("<IIQQQQ", os.pread(file, 40, table + size * index)) for index in range(count)]
    names = os.pread(file, sections[names_at][5], sections[names_at][4])
    for name_at, kind, _flags, _address, offset, length in sections:
        name = names[name_at : names.index(b"\0", name_at)].decode()
        is_program_data = kind == 1
        if is_program_data and (name in (".nv_fatbin", "__nv_relfatbin") or name.startswith(".debug")):
            yield offset, length
