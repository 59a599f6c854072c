"""Folders below /tmp that go with the process that made them; what a killed one has left goes when the next begins.

A test worker that is killed (a time limit, a session that ends) runs no handler at its end: so the name of each folder
holds the number of its process.
"""

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def own_folder(prefix: str) -> Path:
    """A new one, until this process ends."""
    folder = _made(prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def passing_folder(prefix: str) -> Iterator[Path]:
    """A new one, until the block is left; what cannot be removed then, for somebody still writes there, goes later."""
    folder = _made(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(prefix: str) -> Path:
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if _is_left(left.name.removeprefix(prefix).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def _is_left(pid: str) -> bool:
    """Whether the process of that number is no more."""
    if not pid.isdecimal() or sys.platform == "win32":  # to ask there is to end it
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
