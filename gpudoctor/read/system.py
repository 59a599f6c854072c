"""The boundary to the machine: files, folders, the environment, all relative to a root that tests can move.

Readers take a `System` and never call `open` or `os` themselves, so each can be run on a tree of a test's making.
"""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from gpudoctor.snapshot import Reading, absent, missing, read

T = TypeVar("T")

MAXIMUM_FILE_BYTES = 16 * 1024 * 1024
"""No file that a reader wants is larger; more is a mistake or an attack."""


class NodeStatus(NamedTuple):
    """What stat(2) and access(2) say of a file."""

    is_character_device: bool
    mode: int
    user_id: int
    group_id: int
    readable: bool
    writable: bool


class System:
    """A machine, or a folder that looks like one."""

    def __init__(self, root: str | Path = "/", environment: Mapping[str, str] | None = None) -> None:
        self.root = Path(root)
        self.environment: Mapping[str, str] = dict(os.environ) if environment is None else environment

    def at(self, path: str) -> Path:
        """Where `path` (absolute on the machine) lies under the root."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """A file's content, stripped of surrounding whitespace. Raises `OSError`."""
        with self.at(path).open("rb") as file:
            return file.read(MAXIMUM_FILE_BYTES).decode("utf-8", "replace").strip()

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted. Raises `OSError`."""
        return sorted(os.listdir(self.at(path)))  # noqa: PTH208 - a list of names is what is wanted

    def link(self, path: str) -> str:
        """The target of a symbolic link. Raises `OSError`."""
        return os.readlink(self.at(path))  # noqa: PTH115 - the target is text, not a path here

    def exists(self, path: str) -> bool:
        return self.at(path).exists()

    def status(self, path: str) -> NodeStatus:
        """Raises `OSError`."""
        place = self.at(path)
        found = place.stat()
        return NodeStatus(
            is_character_device=stat.S_ISCHR(found.st_mode),
            mode=stat.S_IMODE(found.st_mode),
            user_id=found.st_uid,
            group_id=found.st_gid,
            readable=os.access(place, os.R_OK),
            writable=os.access(place, os.W_OK),
        )


def attempt(source: str, function: Callable[[], T]) -> Reading[T]:
    """`function`'s result as a reading; what it raises becomes the reason why there is none.

    A file that does not exist is `absent`: readers that expect it to exist say so themselves.
    """
    try:
        return read(source, function())
    except FileNotFoundError:
        return absent(source, "not on this machine")
    except PermissionError as error:
        return missing(source, f"permission denied ({error.strerror or error})", "denied")
    except OSError as error:
        return missing(source, error.strerror or str(error))
    except Exception as error:  # a kernel or tool that answers in a form nobody foresaw
        return missing(source, f"unexpected content: {type(error).__name__}: {error}")
