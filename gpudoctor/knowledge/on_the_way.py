"""What the user's program calls between a line that a rank has passed and one to which it did not come, in words."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot.evidence import Enclosing

MOST_CALLS = 5
SINCE, LOOP, CALL = "since", "loop", "call"
ON_CPU = "another backend"
"""A collective on a group of gloo's, which NCCL does not count."""
CAUSE_OF = {
    "queue": "queue-wait",
    "file lock": "file-lock-wait",
    "file": "slow-rank-timeout",
    "tries again": "slow-rank-timeout",
    "sleep": "slow-rank-timeout",
    "service": "service-no-answer",
    "child": "child-process-wait",
    "thread": "thread-wait",
    "future": "thread-wait",
    "lock": "lock-held",
    "store": "store-key-missing",
    "storage": "storage-stall",
    "asyncio": "asyncio-wait",
    "input": "stopped-rank",
    "leaves": "rank-divergent-decision",
    ON_CPU: "rank-divergent-decision",
}
"""Of what is waited for the cause; of the others (a pool, a signal) the text does not tell which it is."""


class OnTheWay(NamedTuple):
    """What the program calls between a rank's last words, or its last collective, and the line to which it did not
    come."""

    said_at: int
    cause: str
    """Of the only call there that waits for something; "" where there is none, or another one may do so as well."""
    calls: tuple[str, ...]
    """Those that wait or may, with their lines."""
    computes_at: int = 0
    """Where there is none, a loop of the program's own; 0 without one."""

    @property
    def words(self) -> str:
        """What the program does from there on."""
        if not self.calls:
            return f"calls nothing that waits, and goes through the loop of line {self.computes_at}: it computed"
        return f"calls {listed(self.calls)}" + (", and nothing else that waits" if self.cause else "")

    @property
    def decides(self) -> tuple[str, int] | None:
        """The cause, or the line of a loop that computes; None where neither is shown."""
        if self.cause:
            return self.cause, 0
        return ("slow-rank-timeout", self.computes_at) if not self.calls and self.computes_at else None


def told_on(passage: Sequence[Enclosing]) -> OnTheWay:
    """`passage`: where it begins ("since"), what of it waits by its kind, calls of which that is not known ("call"),
    and loops that compute ("loop")."""
    said_at = next((each.line for each in passage if each.kind == SINCE), 0)
    loop = next((each.line for each in passage if each.kind == LOOP), 0)
    others = [each for each in passage if each.kind == CALL]
    every = [each for each in passage if each.kind not in (SINCE, LOOP, CALL)]
    # A file is read or written in no time, as a rule; what waits for somebody may wait for ever.
    waits = [call for call in every if call.kind != "storage"] or every
    only = waits[0].kind if len({call.kind for call in waits}) == 1 and not others else ""
    calls = (f"`{call.text}` in line {call.line}" for call in [*waits, *others][:MOST_CALLS])
    return OnTheWay(said_at, CAUSE_OF.get(only, ""), tuple(calls), loop)
