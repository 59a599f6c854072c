"""Before the start, whether the nodes of a job can train together: the head asks, once all of them are there."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from gpudoctor import active
from gpudoctor.fleet.meet_at import MeetAt
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.run.meeting import told_rendezvous
from gpudoctor.run.preflight import BESIDE_SECONDS, BeforeTold

PYTHON = lazy_re(r"(?:.*/)?(?:python|pypy)[0-9.]*t?")
Invited = Callable[[], tuple[MeetAt | None, Mapping[str, str] | None]]


class NodesTask(Struct, frozen=True, kw_only=True):
    """For the child that looks."""

    meet: MeetAt
    python: str = ""
    """The line's own, where it names one."""
    address: str = ""
    port: int = 0
    """At which the ranks will meet, as the line tells; 0: it does not."""


class NodesBefore:
    """One look, for the head."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._python = command[0] if PYTHON.fullmatch(command[0]) else ""
        self._address, self._port = told_rendezvous(command, environment)
        self._child: active.Child | None = None

    def look(self, invited: Invited) -> BeforeTold | None:
        """What was found; None as long as it looks. Called often."""
        if self._child is None:
            meet, environment = invited()
            if meet is None:
                return BeforeTold()
            task = NodesTask(meet=meet, python=self._python, address=self._address, port=self._port)
            words = active.own_module("gpudoctor.run.nodes_looked", msgspec.json.encode(task).decode())
            try:
                self._child = active.start("nodes", words, timeout=BESIDE_SECONDS, environment=environment)
            except (OSError, ValueError):  # no more processes
                return BeforeTold()
        if not self._child.is_over():
            return None
        reply, self._child = self._child.end(), None
        try:
            return msgspec.json.decode(reply.output, type=BeforeTold)
        except msgspec.DecodeError:
            return BeforeTold()

    def end(self) -> None:
        """Nobody waits for it any more."""
        if self._child is not None:
            self._child.end()
            self._child = None


def said_elsewhere(node: str, errors: int) -> BeforeTold:
    """Another node's finding, which stands there in full. `node`: empty for the one that keeps the report."""
    if not errors:
        return BeforeTold()
    return BeforeTold(
        errors=errors, lines=(f"{node or 'the node that keeps the report'} has found {counted(errors, 'error')}",)
    )
