"""Which programs we run, and where they start: never from, nor in, the folder that the user stands in.

That folder may be another user's, and we may be root. Python puts it on the module path of every `python -c` and of
`python -m`: multiprocessing's processes and its resource tracker are such, and -P, which hinders it, is of 3.11.
An empty or relative entry of PATH, PYTHONPATH, PYTHONHOME, LD_LIBRARY_PATH, LD_PRELOAD and the like means it too. All
of these are relative to where a process starts: so whatever we start begins in /, where only root writes.
"""

import contextlib
import os
from collections.abc import Mapping

ELSEWHERE = os.path.abspath(os.sep)  # noqa: PTH100 - pathlib imports much
"""The working folder of everything that we start."""
FOLDER = "GPUDOCTOR_FOLDER"
"""Tells our children in which folder the user stands; empty where it was deleted."""


def folder() -> str | None:
    """The folder that the user stands in, also in a child; None when it was deleted under us."""
    wished = os.environ.get(FOLDER)
    if wished is not None:
        return wished or None
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None


def go_back() -> None:
    """Into the user's folder, for a child of our own that is given names as the user wrote them. Imports come first."""
    with contextlib.suppress(OSError):  # it may not be entered: what is named by a whole path is found all the same
        os.chdir(folder() or ELSEWHERE)


def absolute(entries: str) -> str:
    """Of a list as PATH is one, the folders that are the same wherever one stands."""
    return os.pathsep.join(entry for entry in entries.split(os.pathsep) if os.path.isabs(entry))  # noqa: PTH117


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of something that we start: without entries of PATH and PYTHONPATH that are not absolute.

    LD_LIBRARY_PATH stays as it is, for what it says is examined: its relative entries lead to nothing of a user's in /.
    """
    made = dict(os.environ if base is None else base)
    for name in ("PATH", "PYTHONPATH"):
        if kept := absolute(made.get(name, "")):
            made[name] = kept
        else:
            made.pop(name, None)
    made[FOLDER] = folder() or ""
    return made


def find(name: str, path: str | None = None) -> str | None:
    """Where the command `name` lies on the PATH, as `shutil.which`, but never in a folder that is relative.

    A name with a slash is somebody's own word, and is taken as it is.
    """
    import shutil  # here, for it imports much that --help needs not

    entries = os.environ.get("PATH", os.defpath) if path is None else path
    return shutil.which(name, path=absolute(entries))


def as_typed(name: str) -> str | None:
    """Where a shell finds the command that the user has typed. For `gpudoctor run` alone, which starts it as it is."""
    import shutil

    return shutil.which(name)
