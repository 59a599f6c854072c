"""Room on the file systems that training writes to. A dead mount costs its own path and nothing else."""

import os
import shutil
import threading
from collections.abc import Callable
from typing import NamedTuple

from gpudoctor import programs
from gpudoctor.read import mounts
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt, within
from gpudoctor.snapshot import Reading, Space, UsedPath, missing, read


class UsableFolder(NamedTuple):
    """A folder that may be used: `role` is the variable that names it, or would."""

    role: str
    path: str
    chosen: bool
    """Somebody set the variable; else it is the default, which is of interest only when it exists."""


def home(system: System) -> str | None:
    """The user's home folder: $HOME, else /etc/passwd (read as a file: name services can hang)."""
    named = system.environment.get("HOME") or system.environment.get("USERPROFILE")
    return named or home_of_passwd(system)


def home_of_passwd(system: System) -> str | None:
    """What /etc/passwd says of this user."""
    if hasattr(os, "getuid"):
        for line in system.text_or_empty("/etc/passwd").splitlines():
            fields = line.split(":")
            if len(fields) >= 6 and fields[2] == str(os.getuid()):
                return fields[5]
    return None


def candidates(system: System, working_folder: str | None) -> list[UsableFolder]:
    """The folders by the rules of their users, in the order of the report."""
    variables = system.environment
    usable_folders: list[UsableFolder] = []

    def add(role: str, default: str | None, *, always: bool = False) -> None:
        path = variables.get(role) or default
        if not path:
            return
        if path.startswith("~") and own:  # Hugging Face and Triton expand it
            path = own + path[1:]
        # Text and not Path: a name may lie on a dead mount, and is not looked at here.
        whole = os.path.join(working_folder or "/", path)  # noqa: PTH118
        usable_folders.append(UsableFolder(role, whole, bool(variables.get(role)) or always))

    own = home(system)
    cache = variables.get("XDG_CACHE_HOME") or (os.path.join(own, ".cache") if own else None)  # noqa: PTH118
    temporary = "/tmp" if system.is_linux else variables.get("TEMP", variables.get("TMP", "/tmp"))
    # Python's tempfile, and so torch, its compile workers and its data loaders' sockets.
    add("TMPDIR", temporary, always=True)
    if working_folder:
        usable_folders.append(UsableFolder("working folder", working_folder, True))
    add("XDG_CACHE_HOME", cache, always=True)
    # huggingface_hub/constants.py
    add("HF_HOME", cache and os.path.join(cache, "huggingface"))  # noqa: PTH118
    # torch/hub.py
    add("TORCH_HOME", cache and os.path.join(cache, "torch"))  # noqa: PTH118
    # triton/knobs.py
    add("TRITON_CACHE_DIR", own and os.path.join(own, ".triton", "cache"))  # noqa: PTH118
    # torch/_inductor/runtime/cache_dir_utils.py puts it under the temporary folder, whose room is read above
    add("TORCHINDUCTOR_CACHE_DIR", None)
    # CUDA's cache of compiled kernels
    add("CUDA_CACHE_PATH", None)
    return usable_folders


def space(system: System, path: str) -> Space:
    """Room where `path` is, or would be made: its nearest existing folder. Raises `OSError`; may hang."""
    place = system.at(path).resolve()
    while not place.exists() and place != place.parent:
        place = place.parent
    writable = os.access(place, os.W_OK)
    if not hasattr(os, "statvfs"):
        usage = shutil.disk_usage(place)
        return Space(usage.total, usage.free, writable=writable)
    statvfs = os.statvfs(place)
    return Space(
        total_bytes=statvfs.f_blocks * statvfs.f_frsize,
        free_bytes=statvfs.f_bavail * statvfs.f_frsize,
        total_inodes=statvfs.f_files,
        free_inodes=statvfs.f_favail,
        filesystem=_filesystem(system, str(place)),
        writable=writable,
    )


def _filesystem(system: System, place: str) -> str:
    root = str(system.root.resolve())
    path = place if root == "/" else "/" + place.removeprefix(root).lstrip("/")
    mount = mounts.holding(mounts.parse(system.text_or_empty("/proc/self/mountinfo")), path)
    return mount.filesystem if mount else ""


Measure = Callable[[System, str], Space]


def used_path(system: System, candidate: UsableFolder, measure: Measure) -> UsedPath | None:
    """A candidate with its room; None for a default that nobody has used yet."""
    source = f"statvfs {candidate.path}"

    def look() -> Space | None:
        there = system.exists(candidate.path)
        if candidate.role == "TMPDIR" and not there:
            # Nobody makes this one: tempfile passes over it without a word, other programs fail.
            raise OSError("no such folder")
        return measure(system, candidate.path) if there or candidate.chosen else None

    reading = attempt(source, lambda: within(system.patience, f"the file system of {candidate.path}", look))
    if not reading.is_read:
        kind = reading.missing_kind or "failed"
        return UsedPath(candidate.role, candidate.path, missing(source, reading.reason, kind))
    room = reading.value
    return None if room is None else UsedPath(candidate.role, candidate.path, read(source, room))


@reader("paths", "host.paths", everywhere=True)
def read_paths(system: System, measure: Measure = space, folder: str | None = None) -> Reading[tuple[UsedPath, ...]]:
    """Every path has a thread of its own, so several dead mounts cost one deadline together."""
    wanted = candidates(system, folder or programs.folder())
    by_number: dict[int, UsedPath | None] = {}

    def look(number: int, candidate: UsableFolder) -> None:
        by_number[number] = used_path(system, candidate, measure)

    threads = [threading.Thread(target=look, args=pair, daemon=True) for pair in enumerate(wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = (by_number.get(number) for number in range(len(wanted)))
    return read("environment, statvfs", tuple(path for path in paths if path is not None))
