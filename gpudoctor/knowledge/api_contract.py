"""What a contract of a call is written as; the rows stand in `api_contracts.py` and `step_contracts.py`."""

from typing import Literal

from msgspec import Struct

Clause = Literal[
    "once", "after", "beside", "not after", "with", "argument", "own", "never", "not", "kept", "everywhere"
]
"""once: not a second time, before `other` has come. after: not before `other` has come. beside: not in a rank that
calls `other` too. not after: not behind `other`. with: below the same conditions as `other`. argument: not given an
object that is `other`. own: not given what this rank alone has computed. never: not in a rank's own course. not: not
at all, as `given`. kept: its result is used, where `other` comes. everywhere: by every rank, where `other` comes
too."""


class ApiContract(Struct, frozen=True, kw_only=True):
    id: str
    call: str
    clause: Clause
    other: str = ""
    same_object: bool = False
    """`other` counts for the object alone that it was called on."""
    somewhere: bool = False
    """Only where some rank does call `other`."""
    of_any_rank: bool = False
    """`other` counts from whatever rank it comes."""
    given: str = ""
    """Only where an argument, or the object, is one of these."""
    unless: str = ""
    """Not where this stands in the program."""
    until: str = ""
    """`other` counts no longer when one of these has come behind it."""
    is_sure: bool = False
    """Only below no condition that nobody knows."""
    in_a_loop: bool = False
    """Only where it comes again and again."""
    later: bool = False
    """Only where `other` comes behind it in the same loop."""
    before: str = ""
    """Only where one of these comes before `other` in the same loop."""
    at_object: bool = False
    """Told where the object is made."""
    told: str = ""
    """Only where this stands in the text or beside it."""
    severity: Literal["error", "warning"] = "error"
    summary: str
    happens: str
    fix: str
    source: str
