"""How much longer everything takes here than on an idle machine, because others have its processors.

The kernel counts for each thread how long it ran and how long it was ready and waited for a processor, or for the quota
of its control group (/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst). A deadline that is there for what
never comes back must not be met by what is merely not let run.
"""

from pathlib import Path

MOST = 4.0
"""Of a deadline no more is made: what is ready so rarely is not waited for by those who ask either."""


def slowdown(tasks: Path = Path("/proc/self/task")) -> float:
    """Seconds that a second of work of this process has taken so far, from 1 to `MOST`; 1 where nobody counts."""
    ran = delayed = 0
    try:
        for task in tasks.iterdir():
            own_ran, own_delayed = map(int, (task / "schedstat").read_bytes().split()[:2])
            ran += own_ran
            delayed += own_delayed
    except (OSError, ValueError):
        pass  # no such file, or a thread that has ended meanwhile
    return min(MOST, 1.0 + delayed / ran) if ran > 0 else 1.0
