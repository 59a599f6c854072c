"""Runs code in a process of its own, so that what it and its children take of memory can be told from all else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MEBIBYTE = 1 << 20
_BEFORE = """
import json, resource, sys
def peak(of):
    return resource.getrusage(of).ru_maxrss * 1024
"""
_AFTER = """
print(json.dumps([answer, peak(resource.RUSAGE_SELF), peak(resource.RUSAGE_CHILDREN)]))
"""


def alone(code: str, *arguments: object, timeout: float) -> tuple[Any, int, int]:
    """What `code` leaves in `answer`, the bytes that its process took at most, and those of its largest child.

    A worker of pytest cannot be asked: it counts the children of every test that it ran before, and its own size.
    """
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + code + _AFTER, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer, own, children = json.loads(done.stdout)
    return answer, own, children
