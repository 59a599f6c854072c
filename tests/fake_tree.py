"""Builds a folder that looks like a machine's /proc, /sys and /dev, for readers rooted there."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpudoctor.read.system import System

INITIAL = "pid:[4026531836]"


class Link(NamedTuple):
    target: str


def fake(
    root: Path,
    files: Mapping[str, str | bytes | Link],
    environment: Mapping[str, str] | None = None,
    *,
    platform: str = "linux",
    patience: float = 6.0,
) -> System:
    """A `System` rooted at `root` that holds these files (a name that ends in "/" is an empty folder)."""
    for path, content in files.items():
        place = root / path.lstrip("/")
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            os.symlink(content.target, place)  # noqa: PTH211 - dangling and "pid:[...]" targets, which are text
        elif isinstance(content, bytes):
            place.write_bytes(content)
        else:
            place.write_text(content, encoding="utf-8")
    return System(root, environment or {}, platform=platform, patience=patience)


class Refusing(System):
    """A tree in which the files under some prefixes may not be read: tests run as root too, who may read all."""

    def __init__(self, tree: System, *prefixes: str) -> None:
        super().__init__(tree.root, tree.environment, patience=tree.patience)
        self.prefixes = prefixes

    def _refuse(self, path: str) -> None:
        if path.startswith(self.prefixes):
            raise PermissionError(13, "Permission denied")

    def raw(self, path: str, limit: int = 1 << 24) -> bytes:
        self._refuse(path)
        return super().raw(path, limit)

    def names(self, path: str) -> list[str]:
        self._refuse(path)
        return super().names(path)

    def link(self, path: str) -> str:
        self._refuse(path)
        return super().link(path)
