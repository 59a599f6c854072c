"""What the system does not give, in a phrase that names the limit or the file."""

import errno
import os
from pathlib import Path

LIMITS = {
    errno.EMFILE: "ulimit -n",
    errno.ENFILE: "sysctl fs.file-max",
    errno.EAGAIN: "ulimit -u, pids.max",
    errno.ENOMEM: "ulimit -v, the cgroup's limit",
}


def lacking(error: OSError, program: str = "") -> str:
    """Why something could not be started or opened. `program`: what was to be started, which needs no naming."""
    said = error.strerror or str(error)
    limit = LIMITS.get(error.errno or 0)
    if limit is not None and "ulimit" not in said:
        said = f"{said} ({limit})"
    name = error.filename if isinstance(error.filename, (str, bytes)) else b""
    named = os.fsdecode(name)
    return f"{ascii(named)[1:-1]}: {said}" if named and named != program else said


def unwritable(place: Path) -> str:
    """Why nothing can be written there, as a phrase; empty when it can."""
    if os.access(place, os.W_OK):
        return ""
    if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
        return "its file system is mounted read-only"
    return "permission denied"
