"""`SshFleet`: agents on other machines, through the user's own ssh and its configuration.

ClusterShell's engine runs in a thread: one ssh a node, all started at once, their standard input and output kept
open as the channel. No host key is ever accepted for the user, no password asked for (BatchMode), and no connection
left behind.
"""

import os
from collections.abc import Mapping, Sequence

from gpudoctor import programs
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.fleet.messages import Bye, encode
from gpudoctor.fleet.ssh_command import BadSsh as BadSsh, Remote as Remote, command, ssh_words
from gpudoctor.fleet.ssh_errors import lost_from

CONNECT_SECONDS = 10.0
GRACE_SECONDS = 1.0
"""How long the agents have after Bye before their ssh is ended (which ends them too, by EOF)."""
KILL_SECONDS = 0.7


class SshFleet(Fleet):
    """One agent a node, through ssh. Raises `BadSsh` when there is no ssh to run."""

    how = "ssh"

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        remote: Remote | None = None,
        connect_timeout: float = CONNECT_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(nodes)
        self.ssh = ssh_words(os.environ if environment is None else environment)
        if programs.find(self.ssh[0]) is None:
            raise BadSsh(f"{self.ssh[0]}: no such command; it is how the other nodes are reached")
        from gpudoctor.fleet.ssh_engine import Engine

        commands = [
            command(self.ssh, node, index, remote or Remote(), connect_timeout) for index, node in enumerate(self.nodes)
        ]
        self._begun: set[int] = set()
        self._engine: Engine | None = Engine(commands, self._arrived, self._ended)

    def write(self, line: bytes) -> None:
        if self._engine is not None:
            self._engine.write(line)

    def _arrived(self, node: int, line: bytes) -> bool:
        """Whether the node is still to be listened to."""
        if self.heard(node, line):
            self._begun.add(node)
        return not self.is_over(node)

    def _ended(self, node: int, status: int, errors: list[str]) -> None:
        self.connection_over(node, lost_from(status, errors, had_begun=node in self._begun))

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.write(encode(Bye()))
            engine.close(GRACE_SECONDS, KILL_SECONDS, begun=frozenset(self._begun))
