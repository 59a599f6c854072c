"""What `explain` answers to a case, and what is wrong with it."""

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from typer.testing import CliRunner

from gpudoctor.cli.group import app
from tests.corpus.cases import Case


class Scored(NamedTuple):
    case: Case
    status: int
    answer: str
    wrong: str
    """Empty where the answer is right."""
    class_: str
    """That the answer gives; empty: none."""
    sure: bool
    """A cause is named as likely or surer."""
    blame: str = ""
    restart: str = ""
    """That the answer gives; empty: none."""
    fixes: bool = False
    """The first fix that it tells shows what the label's does."""

    @property
    def right_class(self) -> bool:
        return any(self.class_ in SAME.get(name, {name}) for name in (self.case.class_, *self.case.equally))

    @property
    def near_class(self) -> bool:
        """Of the issue's list no other class would have been nearer."""
        return any(self.class_ in WIDER.get(name, {name}) for name in (self.case.class_, *self.case.equally))

    @property
    def right_by_second(self) -> bool:
        """The class is the second reader's first choice."""
        return self.class_ in self.case.second[:1]

    @property
    def wrong_and_sure(self) -> bool:
        """A cause is named with certainty, and it is of another class, and the text that was to be told is not."""
        return self.sure and not self.right_class and bool(self.wrong)


CLASS = re.compile(
    r"^Class: (?P<class>[\w-]+); to blame: (?P<blame>\w+); start it again: (?P<restart>[\w ]+).*$", re.MULTILINE
)
FIX = re.compile(r"^  Fix: (?P<text>.*?)(?=^  How sure: |^\S|\Z)", re.MULTILINE | re.DOTALL)
AT = re.compile(r"(?:\bat )?\S*/\S*:\d+(?: in [\w<>]+)?")
"""Where an exception was raised, which a fix quotes: a folder's name in it tells nobody what to do."""
SAME = {
    "file-system": {"storage"},
    "open-files": {"limits"},
    "compile": {"import", "dependency-mismatch"},
    "signal": {"signal", "dead-rank"},
    "dead-rank": {"dead-rank", "signal"},
    "argument": {"argument", "shape"},
    "driver": {"driver", "no-device"},
    "rendezvous": {"rendezvous", "launcher"},
    "route": {"route", "download"},
}
"""Words of the labels, which are the issue's: the classes of ours that it does not name, and that are a kind of these.
Only what is narrower is taken as equal; `firewall` and `route`, `rdma` and `nccl-setting` are two things."""
WIDER = {
    **SAME,
    "rdma": {"rdma", "limits"},
    "device-ordinal": {"device-ordinal", "no-device"},
    "config": {"config", "launcher"},
}
"""The same for whoever had only the issue's list: it has neither `limits` (a memlock limit is called rdma then) nor
`no-device` nor `launcher` (slots and tasks that do not fit are a configuration). Counted apart, as `nearest`."""


def agreed(case: Case, choices: int | None = 1) -> bool:
    """The first label's class is among so many first choices of the second reader; None: among all of his."""
    return bool(SAME.get(case.class_, {case.class_}) & {*case.second[:choices]})


def first_choices(case: Case) -> list[AbstractSet[str]]:
    """Each reader's; the first label may be of the issue's list, and then stands for several of our classes."""
    return [classes[0] for classes in _readers(case)]


def majority(case: Case) -> frozenset[str]:
    """What most of the readers, two at least, choose first, or else name at all; empty: no two name the same."""
    for choices in (1, None):
        named = Counter(name for classes in _readers(case) for name in frozenset[str]().union(*classes[:choices]))
        most = max(named.values())
        if most > 1:
            return frozenset(name for name, count in named.items() if count == most)
    return frozenset()


def _readers(case: Case) -> list[list[AbstractSet[str]]]:
    """The classes of each who has read the case, each as the set of ours that it stands for."""
    readers: list[list[AbstractSet[str]]] = [[SAME.get(name, {name}) for name in (case.class_, *case.equally)]]
    for classes in filter(None, (case.second, case.third)):
        readers.append([{name} for name in classes])
    return readers


def score(case: Case) -> Scored:
    with TemporaryDirectory() as folder:
        log = Path(folder) / "a.log"
        log.write_bytes(case.log.encode())
        result = CliRunner().invoke(app, ["explain", "--no-color", "-v", str(log)], env={"COLUMNS": "200"})
    classed, fix = CLASS.search(result.output), FIX.search(result.output)
    answer = CLASS.sub("", result.output)
    wrong = []
    if result.exit_code != case.exit:
        wrong.append(f"exit {result.exit_code} and not {case.exit}")
    # an answer is folded at the width of the terminal
    flat = " ".join(answer.split())
    wrong += [f"does not say {each}" for each in case.must if not re.search(each, flat, re.IGNORECASE)]
    wrong += [f"says {each}" for each in case.never if re.search(each, answer, re.IGNORECASE)]
    return Scored(
        case,
        result.exit_code,
        answer,
        "; ".join(wrong),
        classed["class"] if classed else "",
        "cause " in answer[:6],
        classed["blame"] if classed else "",
        classed["restart"] if classed else "",
        bool(case.fix and fix and re.search(case.fix, AT.sub("", " ".join(fix["text"].split())), re.IGNORECASE)),
    )
