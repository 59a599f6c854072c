"""Messages of families.txt and messages.txt, in the shapes in which they reach a log, and what `explain` says."""

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.cause import RESTARTS
from gpudoctor.explain.explain import STANDARD_INPUT, explain
from gpudoctor.fault_classes import CLASSES
from gpudoctor.sure import LIKELY

HERE = Path(__file__).resolve().parent
FILE = HERE / "families.txt"
DRAWN = HERE / "messages.txt"
"""Drawn by chance from the sources of those who say them; with whom each blames."""
BEFORE = "loading settings from run.yaml\nepoch 0 step 100 loss 3.114\nepoch 0 step 200 loss 2.871\n"
BEHIND = "epoch 0 step 300 loss 2.640\nepoch 0 step 400 loss 2.512\nepoch 0 step 500 loss 2.431\n"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/work/train.py", line 71, in <module>\n    main()\n'
    '  File "/work/train.py", line 58, in main\n    run(settings)\n'
)
OF_PYTHON = re.compile(
    r"(?!(?:Error|ERROR|WARNING|CRITICAL|Caused by): )(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Invalid|Worker)?: "
)
SHAPES = ("alone", "at a log's end", "of a rank")
UNDECIDED = "-"


class Message(NamedTuple):
    speaker: str
    classes: tuple[str, ...]
    """The right ones; none: the line tells no fault."""
    restart: str
    """Empty: the message does not tell."""
    text: str
    blames: tuple[str, ...] = ()
    """The right ones; none: not labelled."""

    @property
    def half(self) -> str:
        return "tune" if hashlib.sha256(self.text.encode()).digest()[0] % 2 else "keep"


class Said(NamedTuple):
    message: Message
    shape: str
    class_: str
    """Empty: nothing is said."""
    sure: bool
    restart: str
    blame: str

    @property
    def right(self) -> bool:
        return self.class_ in self.message.classes if self.message.classes else not self.class_

    @property
    def wrong_and_sure(self) -> bool:
        return self.sure and not self.right


def messages(file: Path = FILE) -> Iterator[Message]:
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            continue
        speaker, labels, *blames, restart, text = line.split(" | ", 4 if file == DRAWN else 3)
        classes = tuple(label for label in labels.split("/") if label != "none")
        assert {*classes} <= {*CLASSES} and restart in (UNDECIDED, *RESTARTS), line
        told = "" if restart == UNDECIDED else restart
        yield Message(
            speaker, classes, told, text.replace(r"\n", "\n"), tuple(each for of in blames for each in of.split("/"))
        )


def shaped(message: Message, shape: str) -> str:
    text = message.text
    if not message.classes:
        return f"{BEFORE}{text}\n{BEHIND}"
    if shape == "alone":
        return text
    if OF_PYTHON.match(text) and message.speaker not in ("pip", "apptainer", "java", "conda"):
        text = TRACEBACK + text
    if shape == "at a log's end":
        return f"{BEFORE}{text}\n"
    ranked = "\n".join(f"3: {line}" for line in f"{BEFORE}{text}".split("\n"))
    return f"{ranked}\nsrun: error: gpu-3: task 3: Exited with exit code 1\n"


def said(file: Path = FILE) -> Iterator[Said]:
    for message in messages(file):
        for shape in SHAPES:
            answer = explain([STANDARD_INPUT], stdin=io.BytesIO(shaped(message, shape).encode()))
            first = answer.causes[0] if answer.causes else None
            sure = first is not None and first.confidence >= LIKELY
            yield Said(message, shape, answer.kind or "", sure, answer.restart, answer.blame or "")


def table(all_said: list[Said]) -> Iterator[str]:
    for half in ("tune", "keep"):
        these = [each for each in all_said if each.message.half == half]
        for shape in SHAPES:
            shown = [each for each in these if each.shape == shape]
            told = [each for each in shown if each.message.restart]
            blamed = [each for each in shown if each.message.blames]
            yield (
                f"{half}, {shape}: class {sum(each.right for each in shown)} of {len(shown)}, restart "
                f"{sum(each.restart == each.message.restart for each in told)} of {len(told)}, "
                + (
                    f"blame {sum(each.blame in each.message.blames for each in blamed)} of {len(blamed)}, "
                    if blamed
                    else ""
                )
                + f"another class and sure "
                f"{sum(each.wrong_and_sure for each in shown)}, nothing said "
                f"{sum(not each.class_ for each in shown if each.message.classes)}"
            )
