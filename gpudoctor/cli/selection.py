"""Turns the names a user typed into checks."""

import difflib
from collections.abc import Sequence

from gpudoctor.check import Check
from gpudoctor.errors import BadInput


def select(checks: Sequence[Check], names: Sequence[str]) -> list[Check]:
    """The checks with these ids, former ids or groups, in their own order; all of them for no name.

    Raises `BadInput` for a name that is neither.
    """
    wanted: set[str] = set()
    for name in names:
        matching = {check.id for check in checks if name in (check.id, check.group, *check.aliases)}
        if not matching:
            known = sorted({check.group for check in checks} | {check.id for check in checks})
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(close)}?" if close else "'gpudoctor checks' lists them"
            raise BadInput(f"no check or group is called {name!r}; {hint}")
        wanted |= matching
    return [check for check in checks if not names or check.id in wanted]
