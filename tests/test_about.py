"""`gpudoctor about ID`: every id that a command prints is explained, and the shell completes them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from gpudoctor.about import advised, entries
from gpudoctor.causes import CAUSES
from gpudoctor.cli.about import _ids
from gpudoctor.lint.rule import every_rule
from gpudoctor.nccl.result import Culprit
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot.changes import ChangeKind
from gpudoctor.symptoms import TABLE
from tests import sources

ROOT = Path(__file__).parent.parent
ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
SAY = {"finding", "blame", "blamed", "problem", "Stated", "stated", "Check"}
"""Functions of `gpudoctor` that make a finding: their first argument is its id, or one of several."""
PRINTED = ("tests/machines/*.txt", "docs/*.md", "README.md")


def said_in_source() -> Iterator[tuple[str, str]]:
    """(where, id), of every finding that has its id written down where it is made."""
    for file in sorted((ROOT / "gpudoctor").rglob("*.py")):
        for node in sources.walk(sources.tree(file)):
            if isinstance(node, ast.Call):
                named = getattr(node.func, "id", getattr(node.func, "attr", ""))
                first = node.args[:1] if named in SAY else []
                own = [
                    each.value for each in node.keywords if each.arg == "id" and named.endswith(("Finding", "Stated"))
                ]
                for each in (each for argument in (*first, *own) for each in ast.walk(argument)):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str) and ID.fullmatch(each.value):
                        yield f"{file.relative_to(ROOT)}:{node.lineno}", each.value


def test_every_check_cause_rule_and_symptom_is_explained() -> None:
    ids = {check.id for check in find_checks()[0]} | {*CAUSES} | {each.id for each in TABLE}
    assert ids | {rule.code for rule in every_rule()} | {rule.id for rule in every_rule()} <= {*entries()}


def test_an_explanation_has_words_a_fix_and_no_open_place_for_a_value_of_a_job() -> None:
    for id, found in entries().items():
        for each in found:
            assert each.title and each.text, id
            assert each.fix is not None or each.kind.startswith(("rule", "symptom", "class")), id
            assert each.kind.startswith("rule") or not re.search(r"\{\w*\}|\w  \w", each.title + each.text), each


def test_every_id_that_a_finding_is_made_with_is_explained() -> None:
    said = list(said_in_source())
    assert len({id for _, id in said}) > 90
    assert [(where, id) for where, id in said if id not in entries()] == []


def test_every_kind_of_change_is_explained_and_a_check_says_what_it_advises() -> None:
    assert {f"changed-{kind}" for kind in get_args(ChangeKind)} <= {*entries()}
    assert {f"slow-{kind}" for kind in get_args(get_type_hints(Culprit)["kind"])} <= {*entries()}
    assert advised(entries()["gpu-unreadable"][0])[1] == "Give this user access to the device files of the GPU."


@pytest.mark.parametrize("pattern", PRINTED)
def test_every_id_in_brackets_that_is_shown_is_explained(pattern: str) -> None:
    for file in sorted(ROOT.glob(pattern)):
        shown = set(re.findall(r"  \[([a-z0-9]+(?:-[a-z0-9]+)+)[\], ]", file.read_text()))
        assert shown <= {*entries()}, file.name


def test_an_id_of_two_things_is_explained_as_both() -> None:
    assert [each.kind.split()[0] for each in entries()["shm-too-small"]] == ["check", "cause"]


def test_a_rule_shows_a_start_that_is_wrong_and_one_that_is_right() -> None:
    assert "Wrong:\n  " in entries()["R01"][0].text and "Right:\n  " in entries()["R01"][0].text


def test_the_shell_completes_ids() -> None:
    assert _ids("row-remap-") == ["row-remap-failed", "row-remap-pending"]
    assert _ids("only-ssh") == ["only-ssh-gets-through"]
