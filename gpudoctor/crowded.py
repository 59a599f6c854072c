"""How much longer everything takes here than on an idle machine, because others have its processors.

The kernel counts for each thread how long it ran and how long it was ready and waited for a processor, or for the quota
of its control group (/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst). A deadline that is there for what
never comes back must not be met by what is merely not let run.
"""

from pathlib import Path

MOST = 4.0
"""Of a deadline no more is made: what is ready so rarely is not waited for by those who ask either."""

MOST_SECONDS = 8.0
"""By which a child's own deadline moves: less than a node's doctor may be late (fleet.reach.ANSWER_SECONDS)."""


def slowdown(tasks: Path = Path("/proc/self/task")) -> float:
    """Seconds that a second of work of this process has taken so far, from 1 to `MOST`; 1 where nobody counts."""
    counted = _counted(tasks)
    ran, delayed = (sum(each) for each in zip(*counted, strict=True)) if counted else (0, 0)
    return min(MOST, 1.0 + delayed / ran) if ran > 0 else 1.0


def kept_waiting(tasks: Path) -> float:
    """Seconds for which the thread of a process that waited longest for a processor did; 0 where nobody counts."""
    return max((delayed for _, delayed in _counted(tasks)), default=0) / 1e9


def _counted(tasks: Path) -> list[tuple[int, int]]:
    """How long each thread ran and was kept waiting, in nanoseconds."""
    counted = []
    try:
        for task in tasks.iterdir():
            ran, delayed = map(int, (task / "schedstat").read_bytes().split()[:2])
            counted.append((ran, delayed))
    except (OSError, ValueError):
        pass  # no such file, or a thread that has ended meanwhile
    return counted
