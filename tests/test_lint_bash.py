"""What `lint` reads of a script is what bash does: real bash, with stubs in PATH, beside what lint believes."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.bash_oracle import compared
from tests.bash_scripts import scripts
from tests.bash_texts import TEXTS

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
EXAMPLES = 30
"""Always the same ones; thousands of others were tried by hand."""


@pytest.mark.parametrize("name", TEXTS)
def test_lint_reads_the_starts_that_bash_makes(name: str, tmp_path: Path) -> None:
    assert compared(TEXTS[name], tmp_path).unlike == []


def test_little_is_left_undecided(tmp_path: Path) -> None:
    """Undecided fits anything, so that somebody has to count it."""
    outcomes = []
    for number, text in enumerate(TEXTS.values()):
        (tmp_path / str(number)).mkdir()
        outcomes.append(compared(text, tmp_path / str(number)))
    assert sum(outcome.undecided for outcome in outcomes) < 0.08 * sum(outcome.words for outcome in outcomes)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(scripts)
def test_scripts_that_nobody_wrote_are_read_as_bash_does_them(script: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert compared(script, Path(folder)).unlike == []
