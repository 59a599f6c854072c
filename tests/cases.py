"""The rows of a check's case list: a machine, and what the check must say of it.

    warning("gpu-too-hot", one(temperature_celsius=84), "GPU 3", "84 °C"),      # it speaks, with these words
    silent("gpu-too-hot", one(temperature_celsius=83)),                        # the least step away: not a word
    skipped("gpu-too-hot", one(temperature_celsius=unread())),                 # it could not look, and says so

`tests/checks/*.py` each define `CASES`; `tests/test_every_check.py` runs them and fails for a check without.
"""

import importlib
from pathlib import Path
from typing import Literal, NamedTuple

from gpudoctor.check import Severity
from gpudoctor.snapshot import Snapshot
from tests.build import but, h100_node, unread

Expected = Severity | Literal["silent", "skipped"]


class Case(NamedTuple):
    """What a check must make of machines."""

    check: str
    expected: Expected
    machines: tuple[Snapshot, ...]
    says: tuple[str, ...] = ()
    """Words that the first problem's summary must hold: the number, the device."""
    runs: tuple[str, ...] = ()
    """Lines that its fix must offer, as a user would paste them."""
    times: int = 1
    """How many problems there must be."""

    @property
    def machine(self) -> Snapshot:
        return self.machines[0]

    @property
    def speaks(self) -> bool:
        return self.expected not in ("silent", "skipped")


def _problem(
    severity: Severity, check: str, machine: Snapshot, says: tuple[str, ...], runs: str | tuple[str, ...], times: int
) -> Case:
    return Case(check, severity, (machine,), says, (runs,) if isinstance(runs, str) else runs, times)


def error(check: str, machine: Snapshot, *says: str, runs: str | tuple[str, ...] = (), times: int = 1) -> Case:
    return _problem("error", check, machine, says, runs, times)


def warning(check: str, machine: Snapshot, *says: str, runs: str | tuple[str, ...] = (), times: int = 1) -> Case:
    return _problem("warning", check, machine, says, runs, times)


def info(check: str, machine: Snapshot, *says: str, runs: str | tuple[str, ...] = (), times: int = 1) -> Case:
    return _problem("info", check, machine, says, runs, times)


def silent(check: str, *machines: Snapshot) -> Case:
    """The near misses: machines that differ from one with the fault by the least step, and do not have it."""
    return Case(check, "silent", machines)


def skipped(check: str, *machines: Snapshot | str) -> Case:
    """Machines of which something that the check needs is unread: a fact's name, for the 8xH100 without it."""
    return Case(
        check,
        "skipped",
        tuple(but(h100_node(), machine, unread()) if isinstance(machine, str) else machine for machine in machines),
    )


def every_case() -> list[Case]:
    """Those of all our checks."""
    files = sorted((Path(__file__).parent / "checks").glob("*.py"))
    return [case for file in files for case in importlib.import_module(f"tests.checks.{file.stem}").CASES]
