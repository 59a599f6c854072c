"""The driver of a job whose workers another program has started: Ray's, where the cluster was there before it."""

from gpudoctor.read.job.files import MAXIMUM_MAPS
from gpudoctor.read.process import THIS, look
from gpudoctor.read.system import System

LIBRARY = b"/ray/_raylet.so"
"""What `import ray` loads; Ray's own daemons are no Python."""
TITLE = "ray::"
"""What the command of a worker begins with while it works for a job (ray/_private/worker.py, setproctitle)."""


def started_by_driver(pid: int, system: System = THIS) -> int | None:
    """When a driver began, in clock ticks after boot; None of any other process."""
    try:
        process = look(pid, system)
        loaded = process is not None and LIBRARY in system.raw(f"/proc/{pid}/maps", MAXIMUM_MAPS)
    except OSError:
        return None
    return process.start_ticks if process is not None and loaded else None
