"""The three cases that every check owes: a machine on which it fires, one on which it is silent, one it cannot read.

`tests/checks/*.py` each define `CASES`; `tests/test_every_check.py` runs them and fails for a check without.
"""

from typing import NamedTuple

from gpudoctor.check import Severity
from gpudoctor.snapshot import Snapshot


class Case(NamedTuple):
    """What a check must say of three machines (and of more: several cases of one check are fine)."""

    check: str
    fires: Snapshot
    unread: Snapshot | None = None
    """A machine on which something it needs could not be read: it must be skipped, never ok."""
    silent: Snapshot | None = None
    """None: the healthy 8xH100, on which every check must be silent anyhow."""
    severity: Severity = "error"
    says: tuple[str, ...] = ()
    """Words that the problem's summary must hold: the number, the device."""
    commands: tuple[str, ...] = ()
    """Lines that the fix must offer, as a user would paste them."""
    times: int = 1
    """How many problems it must find."""
