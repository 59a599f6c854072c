"""The causes: their names, the rules of messages for their texts, and that each is told by somebody."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from gpudoctor.cause import Cause, Stage
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.explain.endings import OF_SIGNAL
from gpudoctor.plugins import find_checks
from gpudoctor.symptoms import TABLE

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
    yield cause.fix
    yield from cause.variants.values()


@every
def test_texts_keep_the_rules_of_messages(cause: Cause) -> None:
    assert cause.title and not cause.title.endswith(".") and "\n" not in cause.title and len(cause.title) <= 90
    sentences = (cause.meaning, cause.confirm, *(fix.text for fix in fixes(cause)))
    for text in sentences:
        assert text.endswith((".", "}")), text
    for text in (cause.title, *sentences):
        assert "!" not in text and "  " not in text
        assert not re.search(r"\b(simply|just|please|ensure)\b", text, re.IGNORECASE), text
    assert cause.source and not cause.source.endswith(".")
    assert cause.stages and set(cause.stages) <= set(get_args(Stage))


@every
def test_it_names_causes_and_checks_that_there_are(cause: Cause) -> None:
    assert set(cause.like) <= CAUSES.keys() - {cause.id}
    assert set(cause.foreseen_by) <= {check.id for check in find_checks()[0]}


@every
def test_commands_can_be_pasted_as_they_stand(cause: Cause) -> None:
    for command in {line for fix in fixes(cause) for line in fix.commands}:
        assert not re.search(r"\.\.\.|<|>|\b(PID|HOST|PORT|ADDRESS)\b", command), command
        parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False, timeout=60)
        assert parsed.returncode == 0, parsed.stderr


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
        for node in ast.walk(ast.parse(file.read_text()))
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
        for node in ast.walk(ast.parse(file.read_text())):
            values: list[ast.expr] = []
            if isinstance(node, ast.Call):
                values = [word.value for word in node.keywords if word.arg in ("cause", "leads_to")]
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "CAUSES":
                values = [node.slice]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
                    yield value.value, f"{file.relative_to(ROOT)}:{value.lineno}"


def test_whoever_speaks_of_a_cause_has_it_from_here() -> None:
    named = list(spoken_of())
    assert named
    assert {place: name for name, place in named if name not in CAUSES} == {}


# A new cause with its log line is one file


NEW = """
from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.symptom import Symptom

CAUSE = Cause(
    id="coffee-spilled",
    title="coffee was spilled over the node",
    stages=("training",),
    blame="node",
    hangs_by="gone",
    meaning="It conducts.",
    fix=Fix("Dry it."),
    variants={"sugar": Fix("Wash {part}, then dry it.")},
    confirm="It smells.",
    symptoms=(
        Symptom(
            "coffee-told", needle="coffee on ", pattern="coffee on (?P<part>[a-z]+)", variant="sugar",
            seen="there is coffee on {part}", source="a test", sample="coffee on fans", counter="tea",
        ),
    ),
    source="a test",
)
"""


def test_a_cause_of_another_package_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "kitchen_causes"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "coffee_spilled.py").write_text(NEW)
    told = tmp_path / "kitchen-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[gpudoctor.causes]\nkitchen = kitchen_causes\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    log = tmp_path / "job.log"
    log.write_text("coffee on fans\n")
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "explain", str(log)],
        capture_output=True, text=True, check=False, timeout=120,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "100"},
    )  # fmt: skip
    assert "cause there is coffee on fans  [coffee-spilled]" in done.stdout, done.stdout + done.stderr
    assert "Fix: Wash fans, then dry it." in done.stdout
