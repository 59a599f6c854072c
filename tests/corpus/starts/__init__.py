"""The starts of tests/corpus/starts/*.starts: how people start a training, and what must be told of it.

Scripts, manifests, configurations and the start part of programs, in the shapes of public threads and repositories;
names, numbers and paths are our own. Each was labelled from its thread before `lint` was run on it, and without having
read its rules.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.corpus.cases import half, read

HERE = Path(__file__).resolve().parent
PART = re.compile(r"^#@ (file|node) (\S+)\n", re.MULTILINE)
LABELS = frozenset({"verdict", "kind", "cause", "line", "ranks", "must", "not", "decidable", "facts", "source"})
VERDICTS = frozenset({"good", "bad", "not-understood"})
KINDS = frozenset({"fails", "hangs", "wrong", "slow"})
DECIDABLE = frozenset({"text", "facts", "no"})
UNMEASURED: tuple[str, ...] = ()
"""How the names of groups begin that are labelled and not yet scored."""


class Text(NamedTuple):
    file: str
    """Its name; empty where a start is one text that has none."""
    node: str
    """The node on which it is typed; empty where that is not told."""
    text: str


class Start(NamedTuple):
    id: str
    group: str
    """The file's name: what group it belongs to."""
    verdict: str
    """good, bad, not-understood (it starts nothing that a linter of starts could know)."""
    kind: str
    """How a bad one ends: fails, hangs, wrong (it trains otherwise than was meant), slow; empty for the others."""
    cause: str
    """In our words."""
    lines: tuple[tuple[str, int], ...]
    """Where the fault is: the file's name (empty where there is one text) and its line."""
    ranks: int | None
    """How many processes train in all, where that is labelled."""
    must: tuple[str, ...]
    """Patterns that the answer must show, all of them."""
    careless: tuple[str, ...]
    """What a careless answer would say wrongly, in words."""
    decidable: str
    """Whether the fault can be known: from the text, with the facts, not at all; empty where there is none."""
    facts: dict[str, str]
    """What a user would tell beside the text."""
    source: str
    """The address of the thread or file whose shape it is, or "own knowledge"."""
    texts: tuple[Text, ...]

    @property
    def half(self) -> str:
        return half(self.id)

    @property
    def measured(self) -> bool:
        """Whether somebody has scored its group; until then no test asks gpudoctor about it."""
        return not self.group.startswith(UNMEASURED)


def starts() -> Iterator[Start]:
    for file in sorted(HERE.glob("*.starts")):
        for name, labels, text in read(file, LABELS):
            try:
                yield _start(name, file.stem, labels, text)
            except (AssertionError, LookupError, ValueError) as error:
                raise AssertionError(f"{file.name}: {name}: {error!r}") from error


def _start(name: str, group: str, labels: dict[str, list[str]], text: str) -> Start:
    verdict = labels["verdict"][0]
    assert verdict in VERDICTS, verdict
    kind, decidable = labels.get("kind", [""])[0], labels.get("decidable", [""])[0]
    if verdict == "bad":
        assert kind in KINDS, kind
        assert decidable in DECIDABLE, decidable
        assert "must" in labels or decidable == "no", "nothing must be told"
    assert labels["cause" if verdict == "bad" else "source"][0]
    for pattern in labels.get("must", ()):
        re.compile(pattern)
    texts = tuple(_texts(text))
    return Start(
        id=name,
        group=group,
        verdict=verdict,
        kind=kind,
        cause=labels.get("cause", [""])[0],
        lines=tuple(_line(value, texts) for value in labels.get("line", ())),
        ranks=int(labels["ranks"][0]) if "ranks" in labels else None,
        must=tuple(labels.get("must", ())),
        careless=tuple(labels.get("not", ())),
        decidable=decidable,
        facts=dict(_fact(fact) for facts in labels.get("facts", ()) for fact in facts.split()),
        source=labels["source"][0],
        texts=texts,
    )


def _texts(text: str) -> Iterator[Text]:
    before, *parts = PART.split(text)
    if before.strip():
        yield Text("", "", before)
    for sort, name, part in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Text(name, "", part) if sort == "file" else Text("", name, part)


def _line(value: str, texts: tuple[Text, ...]) -> tuple[str, int]:
    """`12` of the first text, or `NAME:12` of the file or node of that name."""
    name, _, number = value.rpartition(":")
    of = next(each.text for each in texts if not name or name in (each.file, each.node))
    assert 0 < int(number) <= of.count("\n"), f"no line {value}"
    return name, int(number)


def _fact(fact: str) -> tuple[str, str]:
    name, equals, value = fact.partition("=")
    assert equals, fact
    return name, value
