"""A growing log: looked at again whenever it has grown, until it shows that something failed or that the job ended."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudoctor import cost
from gpudoctor.explain.report import Explanation

POLL_SECONDS = 1.0
QUIET_SECONDS = 3.0
"""Without growth after a first sign of failure: by then the other ranks have said their part."""
SHARE = 20
"""A look that takes a second is followed by so many without one."""


def followed(
    paths: Sequence[str],
    look: Callable[[], Explanation],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Explanation:
    """The first answer that tells of a failure or an end. Ctrl-C ends it as it ends a reading."""
    before: tuple[int, ...] | None = None
    while True:
        sizes = _sizes(paths)
        took = 0.0
        if sizes != before:
            began = clock()
            seen = look()
            took = clock() - began
            if not seen.files or seen.course == "ended well":
                return seen
            if seen.causes or seen.unknown:
                sleep(QUIET_SECONDS)
                if _sizes(paths) == sizes:
                    return seen
                continue  # its story goes on: it is read again
            before = sizes
        cost.progress()
        sleep(max(POLL_SECONDS, SHARE * took))


def _sizes(paths: Sequence[str]) -> tuple[int, ...]:
    """Of the files, and of those in folders."""
    files = [
        file for path in paths for file in (sorted(Path(path).rglob("*")) if Path(path).is_dir() else [Path(path)])
    ]
    return tuple(file.stat().st_size if file.is_file() else -1 for file in files[:10_000])
