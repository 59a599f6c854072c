"""The cases of all our checks: `CASES` of each file in tests/checks, by the check's id."""

import importlib
from pathlib import Path

from gpudoctor.testing.cases import Case


def every_case() -> dict[str, list[Case]]:
    return {check: cases for module in modules() for check, cases in cases_of(module).items()}


def modules() -> list[str]:
    return sorted(file.stem for file in (Path(__file__).parent / "checks").glob("*.py"))


def cases_of(module: str) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = importlib.import_module(f"tests.checks.{module}").CASES
    return found
