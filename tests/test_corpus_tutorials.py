"""The lines of tests/corpus/tutorials: what was once answered as labelled stays so, and no healthy one is accused."""

import importlib
import re

import pytest

from gpudoctor.knowledge.moved_names import EVERY, MovedName
from tests.corpus.tutorials import TutorialCase, tutorial_cases
from tests.corpus.tutorials.score import TutorialAnswer, answer

pytestmark = pytest.mark.usefixtures("forks")
CASES = tuple(tutorial_cases())
KEEP = 60
"""Of 71 in November 2026; 30 before any rule was written for tune."""


def test_cases_have_their_own_ids_and_patterns_that_compile() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.told or case.untold or case.statuses == {0}, case.id
        assert all(re.compile(pattern) for pattern in (*case.told, *case.untold))


@pytest.mark.parametrize("case", [case for case in CASES if case.half == "tune"], ids=lambda case: case.id)
def test_a_line_is_answered_as_labelled(case: TutorialCase) -> None:
    answered = answer(case)
    assert not answered.wrong, answered.said


@pytest.mark.thorough
def test_what_was_reached_is_kept() -> None:
    """Of keep only the sum is told: a rule that is written for one of its cases would be a crib."""
    answers: list[TutorialAnswer] = [answer(case) for case in CASES if case.half == "keep"]
    assert sum(not each.wrong for each in answers) >= KEEP
    assert not sum(each.accuses for each in answers)


@pytest.mark.thorough  # it imports torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch.jit
@pytest.mark.parametrize("entry", [entry for entry in EVERY if entry.needs], ids=lambda entry: entry.name)
def test_what_torch_is_said_to_have_is_there(entry: MovedName) -> None:
    for name in entry.needs:
        module, _, last = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ImportError:
            parent = module
            try:
                owner: object = importlib.import_module(parent)
            except ImportError:  # a method: torch.nn.SyncBatchNorm.convert_sync_batchnorm
                parent, _, middle = module.rpartition(".")
                owner = getattr(importlib.import_module(parent), middle)
            assert hasattr(owner, last), name
