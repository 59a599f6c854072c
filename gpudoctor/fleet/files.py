"""Whether files that a job needs are there: a child of an agent, for a file system may hang."""

import os
from pathlib import Path

import msgspec

from gpudoctor import programs
from gpudoctor.marked import MARK, messages


def main(paths: list[str]) -> None:
    """Entry point of the child: one line for each, as it is found out, so that what hangs loses no other answer."""
    programs.go_back()
    for path in paths:
        print(MARK.decode() + msgspec.json.encode({"file": path, "is": kind(path)}).decode(), flush=True)


def kind(path: str) -> str:
    """ "file", "folder", "unreadable" or "missing"; a name without a slash is looked for on the PATH."""
    if "/" not in path:
        return "file" if programs.find(path) else "missing"
    try:
        there = Path(path)
        if there.is_dir():
            return "folder"
        if not there.exists():
            return "missing"
    except (OSError, ValueError):  # no permission for a folder on the way; a NUL in it
        return "unreadable"
    return "file" if os.access(path, os.R_OK) else "unreadable"


def answers(output: bytes) -> dict[str, str]:
    """What the child said: path -> kind."""
    said = messages(output)
    return {str(message["file"]): str(message["is"]) for message in said if "file" in message and "is" in message}
