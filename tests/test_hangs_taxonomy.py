"""The causes: their names, the rules of messages for their texts, and that each is told by somebody."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from gpudoctor.cause import BLAMES, RESTARTS, Cause, Stage
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.explain.endings import OF_SIGNAL
from gpudoctor.fault_classes import CLASSES, MEANS
from gpudoctor.plugins import find_checks
from gpudoctor.symptoms import TABLE
from tests import sources

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "docs" / "cause-ids.txt"
SPEAKERS = ("hang", "explain", "nccl", "train", "lint")
"""Rooms that say of a job what is wrong with it."""

every = pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.id)


def test_no_name_is_taken_back() -> None:
    """A contract with whoever reads the JSON: never renamed, never reused. docs/generate.py adds what is new."""
    assert set(NAMES.read_text().split()) <= set(CAUSES), "gone"
    assert all(cause.id == name for name, cause in CAUSES.items())


def fixes(cause: Cause) -> Iterator[Fix]:
    yield from map(cause.fix_for, ("", *cause.variants))


@every
def test_texts_keep_the_rules_of_messages(cause: Cause) -> None:
    assert cause.title and not cause.title.endswith(".") and "\n" not in cause.title and len(cause.title) <= 90
    sentences = (cause.meaning, cause.confirm, *(fix.text for fix in fixes(cause)))
    for text in sentences:
        assert text.endswith((".", "}")), text
    for text in (cause.title, *sentences):
        assert "!" not in text.replace("#!", "") and "  " not in text
        assert not re.search(r"\b(simply|just|please|ensure)\b", text, re.IGNORECASE), text
    assert cause.source and not cause.source.endswith(".")
    assert cause.stages and set(cause.stages) <= set(get_args(Stage))


def test_every_class_of_faults_has_its_meaning() -> None:
    assert [*MEANS] == [*CLASSES]


@every
def test_programs_are_told_what_to_do_with_the_job(cause: Cause) -> None:
    """Class, blame and restart, of the cause and of each variant that differs; "other" is for other packages."""
    assert cause.judged.keys() <= cause.variants.keys()
    for judged in map(cause.judge, ("", *cause.judged)):
        assert judged.kind in CLASSES and judged.kind != "other", cause.id
        assert judged.blame in BLAMES and judged.restart in RESTARTS


def test_causes_name_causes_and_checks_that_there_are() -> None:
    checks = {check.id for check in find_checks()[0]}
    for cause in CAUSES.values():
        assert set(cause.like) <= CAUSES.keys() - {cause.id}, cause.id
        assert set(cause.foreseen_by) <= checks, cause.id


PARSED = """for line; do eval "unused() {
:
$line
}" || printf '%s\\n' "$line"; done"""
"""Whether bash can read each of its arguments: a function of it is defined, and none is called."""


def test_commands_can_be_pasted_as_they_stand() -> None:
    commands = sorted({line for cause in CAUSES.values() for fix in fixes(cause) for line in fix.commands})
    for command in commands:
        said = re.sub(r"'[\w.-]+(,?[<>=~!]=?[\d.]+)+'", "", command)  # releases of a package, quoted
        assert not re.search(r"\.\.\.|<|>|\b(PID|HOST|PORT|ADDRESS)\b", said), command
    for given, refused in ((commands, ""), (("echo 'x", "true"), "echo 'x\n")):
        done = subprocess.run(
            ["bash", "-c", PARSED, "bash", *given], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.stdout == refused, done.stderr


def test_commands_of_ours_exist() -> None:
    lines = {line for cause in CAUSES.values() for fix in fixes(cause) for line in fix.commands}
    ours = sorted({shlex.split(line)[1] for line in lines if line.startswith("gpudoctor ")})
    assert ours
    for command in ours:
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", command, "--help"], capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, command


# Who speaks of what, from the sources


@cache
def constants() -> dict[str, str]:
    """Every text in the rooms that speak of causes, with its place. Documentation is no constant of these."""
    return {
        node.value: f"{file.relative_to(ROOT)}:{node.lineno}"
        for room in SPEAKERS
        for file in (ROOT / "gpudoctor" / room).rglob("*.py")
        for node in sources.walk(sources.tree(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@every
def test_somebody_tells_it(cause: Cause) -> None:
    """A line of a log, or a rule of a room that looks at jobs."""
    by_logs = {symptom.cause for symptom in TABLE} | {ending.cause for ending in OF_SIGNAL.values()}
    assert cause.id in by_logs or cause.id in constants(), "nobody can report it"


def spoken_of() -> Iterator[tuple[str, str]]:
    """What is named where only a cause can stand: cause="...", leads_to="...", CAUSES["..."]; with its place."""
    for file in (ROOT / "gpudoctor").rglob("*.py"):
        for node in sources.walk(sources.tree(file)):
            values: list[ast.expr] = []
            if isinstance(node, ast.Call):
                values = [word.value for word in node.keywords if word.arg in ("cause", "leads_to")]
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "CAUSES":
                values = [node.slice]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
                    yield value.value, f"{file.relative_to(ROOT)}:{value.lineno}"


@pytest.mark.thorough
def test_whoever_speaks_of_a_cause_has_it_from_here() -> None:
    named = list(spoken_of())
    assert named
    assert {place: name for name, place in named if name not in CAUSES} == {}
