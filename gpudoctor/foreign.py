"""What strangers wrote, read in a child of ours for a program that is not: bounded in time and memory, and apart.

A command reads in its own process, which the kernel then ends (gpudoctor/cost.py); a program that calls
`gpudoctor.explain` must live on, in whichever thread, whatever the log holds.
"""

import io
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gpudoctor import plugins, programs
from gpudoctor.bounded import GIB
from gpudoctor.errors import BadInput
from gpudoctor.plugins import BrokenPlugin
from gpudoctor.read.apart import Apart, NotAnswered, serve

MEMORY = 2 * GIB
"""As a command may take."""
T = TypeVar("T")


class LogsToExplain(Struct, frozen=True, tag=True):
    paths: tuple[str, ...]
    lines: bytes


class TextToLint(Struct, frozen=True, tag=True):
    text: str
    kind: str | None
    facts: str | None
    version: str | None
    variables: dict[str, str]
    python: str | None


class FileToLoad(Struct, frozen=True, tag=True):
    path: str


Task = LogsToExplain | TextToLint | FileToLoad


class Read(Struct, frozen=True):
    """What the child says."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    refused: str = ""
    """Why what was given is none."""
    broken: dict[str, tuple[BrokenPlugin, ...]] = {}


def answer_to(task: Task, kind: type[T], seconds: float) -> T:
    """The child's answer. Raises `BadInput`: what was given is refused, or it took too long."""
    child = Apart("gpudoctor.foreign", "what was given")
    try:
        read = msgspec.json.decode(child.ask(msgspec.json.encode(task), seconds), type=Read)
    except NotAnswered as error:
        raise BadInput(f"what was given is refused: {error}") from None
    finally:
        child.end()
    plugins.note(read.broken)
    if read.refused:
        raise BadInput(read.refused)
    return msgspec.json.decode(read.answer, type=kind)


def main(arguments: list[str]) -> None:
    """The child."""
    programs.go_back()
    serve(_answer, MEMORY)


def _answer(request: bytes) -> bytes:
    try:
        read = Read(answer=msgspec.Raw(msgspec.json.encode(_done(msgspec.json.decode(request, type=Task)))))
    except BadInput as error:
        read = Read(refused=str(error))
    broken = {group: plugins.broken(group) for group in plugins.GROUPS}
    return msgspec.json.encode(msgspec.structs.replace(read, broken=broken))


def _done(task: Task) -> Any:
    if isinstance(task, LogsToExplain):
        from gpudoctor.explain.explain import STANDARD_INPUT, explain

        logs = (*task.paths, STANDARD_INPUT) if task.lines else task.paths
        return explain(logs, stdin=io.BytesIO(task.lines))
    if isinstance(task, FileToLoad):
        from gpudoctor.read.file import load_snapshot

        return load_snapshot(task.path)
    from gpudoctor.lint.asked import facts_of, lint

    known = facts_of(task.text, task.facts, task.version, None, task.python)
    known = msgspec.structs.replace(known, variables=task.variables)
    return lint(task.text, known, kind=task.kind).report
