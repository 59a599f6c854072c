"""The cases of tests/corpus/*.cases: a log in the shape in which people paste it, and what must be told of it.

The shapes are those of public threads; numbers, names and paths are our own. Each was labelled before `explain` was
run on it, and without having read its tables.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.fault_classes import CLASSES

HERE = Path(__file__).resolve().parent
SECOND = HERE / "second_labels.txt"
THIRD = HERE / "third_labels.txt"
START = re.compile(r"^#### (\S+)\n", re.MULTILINE)
LABELS = frozenset(
    {"class", "cause", "verdict", "exit", "must", "not", "decidable", "source", "blame", "restart", "solved", "fix"}
)
VERDICTS = frozenset({"cause", "undecided", "quoted", "cut", "healthy"})
DECIDABLE = frozenset({"text", "family", "no", ""})


class Case(NamedTuple):
    id: str
    kind: str
    """The file's name: what group it belongs to."""
    class_: str
    """What kind of fault it is, in the words of the issue; the first of those that a careful reader names."""
    cause: str
    """In our words."""
    verdict: str
    """cause, undecided (something failed, what is not in the text), quoted (no fault that is known), cut, healthy."""
    exit: int
    must: tuple[str, ...]
    """Patterns that the answer must show, all of them."""
    never: tuple[str, ...]
    """Patterns that it must not show."""
    log: str
    decidable: str = ""
    """From this text alone: text (the cause is), family (only its kind), no (neither); empty: unlabelled."""
    source: str = ""
    """The address of the thread whose shape it is, or "own knowledge"; empty: not told."""
    blame: str = ""
    restart: str = ""
    """As in `gpudoctor.fault_classes`; empty: unlabelled."""
    solved: str = ""
    """What solved the thread, against which a fix is judged; empty: not told."""
    fix: str = ""
    """A pattern that the told fix must show to lead there; empty: not told."""
    second: tuple[str, ...] = ()
    """A second reader's classes, in the words of docs/classes.md, his first choice first; empty: not read by him."""
    third: tuple[str, ...] = ()
    """A third reader's, in the same form; of tune he has read only where the first two part."""
    equally: tuple[str, ...] = ()
    """Further classes that a careful reader would accept as well (`class: config | argument`)."""

    @property
    def half(self) -> str:
        return half(self.id)


def half(name: str) -> str:
    """Rules are written from tune; keep is only scored."""
    return "tune" if hashlib.sha256(name.encode()).digest()[0] % 2 else "keep"


def read(file: Path, known: frozenset[str]) -> Iterator[tuple[str, dict[str, list[str]], str]]:
    """Each case of a file: its id, its labels and its text."""
    # as bytes: a progress bar's carriage returns are part of a log
    _, *parts = START.split(file.read_bytes().decode())
    for name, case in zip(parts[::2], parts[1::2], strict=True):
        head, _, text = case.partition("----\n")
        labels: dict[str, list[str]] = {}
        for line in head.splitlines():
            label, _, value = line.partition(": ")
            assert label in known, f"{name}: {label}"
            labels.setdefault(label, []).append(value)
        yield name, labels, text


def cases() -> Iterator[Case]:
    second, third = (labels_of(file.read_text()) for file in (SECOND, THIRD))
    for file in sorted(HERE.glob("*.cases")):
        for name, labels, log in read(file, LABELS):
            yield _case(name, file.stem, labels, log, second.pop(name, ()), third.pop(name, ()))
    assert not {**second, **third}, f"labels of no case: {', '.join({**second, **third})}"


def labels_of(text: str) -> dict[str, tuple[str, ...]]:
    """A further reader's, by id. No unknown class, and no id twice."""
    by_id: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, classes = line.partition(": ")
            assert name not in by_id, f"{name}: labelled twice by one reader"
            by_id[name] = tuple(classes.split(" | "))
            assert {*by_id[name]} <= {*CLASSES} and len({*by_id[name]}) == len(by_id[name]), line
    return by_id


def _case(
    name: str,
    kind: str,
    labels: dict[str, list[str]],
    log: str,
    second: tuple[str, ...],
    third: tuple[str, ...],
) -> Case:
    verdict = labels["verdict"][0]
    assert verdict in VERDICTS, f"{name}: {verdict}"
    class_, *equally = labels["class"][0].split(" | ")
    decidable = labels.get("decidable", [""])[0]
    assert decidable in DECIDABLE, f"{name}: {decidable}"
    return Case(
        id=name,
        kind=kind,
        class_=class_,
        cause=labels["cause"][0],
        verdict=verdict,
        exit=int(labels["exit"][0]),
        must=tuple(labels.get("must", ())),
        never=tuple(labels.get("not", ())),
        log=log,
        decidable=decidable,
        source=labels.get("source", [""])[0],
        blame=labels.get("blame", [""])[0],
        restart=labels.get("restart", [""])[0],
        solved=labels.get("solved", [""])[0],
        fix=labels.get("fix", [""])[0],
        second=second,
        third=third,
        equally=tuple(equally),
    )
