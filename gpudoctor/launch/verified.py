"""`Verified`: one claim of a launch plan, and what became of it on the nodes."""

from typing import Literal

from msgspec import Struct

from gpudoctor.command import NONE, Command
from gpudoctor.launch.plan import Unverified

Check = Literal[
    "nodes reached",
    "address form",
    "address owner",
    "same answer",
    "host name",
    "route",
    "port free",
    "reachable",
    "way back",
    "interface names",
    "settings",
    "clocks",
    "versions",
    "GPUs visible",
    "interpreter",
    "script",
]
Outcome = Literal["true", "false", "unknown"]


class Verified(Struct, frozen=True, kw_only=True):
    """One claim of the plan, and what became of it."""

    check: Check
    claim: str
    """The plan's words: "10.0.0.1 is an address of n01, where rank 0 starts"."""
    outcome: Outcome
    seen: str = ""
    """What was found, as a phrase; for "unknown" why it could not be looked at."""
    means: str = ""
    """What a false claim means for the run: a sentence."""
    nodes: tuple[str, ...] = ()
    """Whom it concerns; of a false claim, those where it is false."""
    fix: str = ""
    commands: tuple[Command, ...] = ()
    """Lines to paste: what mends a false claim, what would verify an unknown one."""


def unverified(verified: tuple[Verified, ...]) -> tuple[Unverified, ...]:
    """What could not be looked at, each with the line that would show it."""
    return tuple(
        Unverified(f"{each.claim} ({each.seen})" if each.seen else each.claim, next(iter(each.commands), NONE))
        for each in verified
        if each.outcome == "unknown"
    )


def has_false(verified: tuple[Verified, ...]) -> bool:
    """Whether the launch as planned fails: exit status 1."""
    return any(each.outcome == "false" for each in verified)
