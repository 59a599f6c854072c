"""How bad a problem is: one scale for checks, rules of lint and what two captures differ in."""

from typing import Literal

Severity = Literal["error", "warning", "info"]
"""error: training fails, hangs or computes wrong numbers. warning: it runs, slower or at risk. info: worth knowing.

An info never changes the verdict or the exit status.
"""
WORST_FIRST: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
