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
REFUTED: dict[Check, str] = {
    "address form": "master-addr-loopback",
    "address owner": "master-addr-elsewhere",
    "route": "master-unreachable",
    "reachable": "master-unreachable",
    "interface names": "socket-interface-missing",
    "GPUs visible": "gpus-fewer-than-expected",
    "interpreter": "interpreter-missing-on-node",
    "script": "script-missing-on-node",
}
"""What other commands call it where the claim is false."""
NOT_VERIFIED = "claim-not-verified"


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
    id: str = ""
    """Of a false claim: what other commands call that."""
    nodes: tuple[str, ...] = ()
    """Whom it concerns; of a false claim, those where it is false."""
    fix: str = ""
    commands: tuple[Command, ...] = ()
    """Lines to paste: what mends a false claim, what would verify an unknown one."""


def unverified(verified: tuple[Verified, ...]) -> tuple[Unverified, ...]:
    """What could not be looked at, each with the line that would show it; without what needs nodes that are lost."""
    lost = _needing_lost(verified)
    return tuple(
        Unverified(f"{claim.claim} ({claim.seen})" if claim.seen else claim.claim, next(iter(claim.commands), NONE))
        for claim in verified
        if claim.outcome == "unknown" and claim not in lost
    )


def _needing_lost(verified: tuple[Verified, ...]) -> tuple[Verified, ...]:
    """What could not be looked at for the sake of nodes that cannot be reached, which a claim of its own says."""
    lost = {
        node
        for claim in verified
        if claim.check == "nodes reached" and claim.outcome == "false"
        for node in claim.nodes
    }
    return tuple(claim for claim in verified if claim.outcome == "unknown" and lost and set(claim.nodes) <= lost)


def lost_with_nodes(verified: tuple[Verified, ...]) -> str:
    """One sentence on the claims that nodes took with them; "" where there are none."""
    count = len(_needing_lost(verified))
    claims = f"{count} more claims need" if count > 1 else "1 more claim needs"
    return f"Not verified: {claims} the nodes that cannot be reached." if count else ""


def has_false(verified: tuple[Verified, ...]) -> bool:
    """Whether the launch as planned fails."""
    return any(claim.outcome == "false" for claim in verified)


def exit_status(verified: tuple[Verified, ...]) -> int:
    """Of `launch --check`: 1 a claim is false, 3 none is and not all could be looked at."""
    if has_false(verified):
        return 1
    return 3 if any(claim.outcome == "unknown" for claim in verified) else 0
