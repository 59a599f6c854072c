"""The cases of all our checks: `CASES` of each file in tests/checks."""

import importlib
from pathlib import Path

from gpudoctor.testing.cases import Case


def every_case() -> list[Case]:
    files = sorted((Path(__file__).parent / "checks").glob("*.py"))
    return [case for file in files for case in importlib.import_module(f"tests.checks.{file.stem}").CASES]
