"""The cases of tests/corpus/tutorials/*.cases: lines of old tutorials and their relatives, which nobody had tried.

Each is a command as a user types it, the files that it reads, and what must be told. They were labelled before
gpudoctor was run on any. `python -m tests.corpus.tutorials` scores them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.corpus.cases import half, read

HERE = Path(__file__).resolve().parent
FILE = re.compile(r"^=== (\S+)\n", re.MULTILINE)
LABELS = frozenset({"command", "status", "told", "not", "why"})
STANDARD_INPUT = "-"


class TutorialCase(NamedTuple):
    id: str
    group: str
    """The file's name: what it is about."""
    command: str
    """As in a shell: "gpudoctor lint train.py"."""
    statuses: frozenset[int]
    """The exit statuses that are right."""
    told: tuple[str, ...]
    """Patterns that the answer must show, all of them."""
    untold: tuple[str, ...]
    """Patterns that it must not show."""
    why: str
    files: dict[str, str]
    """What the command reads: name -> text; "-" is its standard input."""

    @property
    def half(self) -> str:
        return half(self.id)


def tutorial_cases() -> Iterator[TutorialCase]:
    for file in sorted(HERE.glob("*.cases")):
        for name, labels, text in read(file, LABELS):
            before, *parts = FILE.split(text)
            assert not before and parts, f"{file.name}: {name}: no file"
            yield TutorialCase(
                id=name,
                group=file.stem,
                command=labels["command"][0],
                statuses=frozenset(map(int, labels["status"][0].split("|"))),
                told=tuple(labels.get("told", ())),
                untold=tuple(labels.get("not", ())),
                why=labels["why"][0],
                files=dict(zip(parts[::2], parts[1::2], strict=True)),
            )
