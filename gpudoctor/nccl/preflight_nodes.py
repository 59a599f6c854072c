"""`Nodes`: what a preflight judges, the snapshots of all nodes as the ranks will find them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.command import Command, command, over_ssh
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.snapshot import NotRead, Reading, Snapshot, read


class Nodes(Struct, frozen=True):
    """The nodes by name, in the order of their node rank; the first is the head of the job."""

    snapshots: dict[str, Snapshot]
    """With the forwarded settings in their environment."""
    backend: Literal["nccl", "gloo"] = "nccl"
    how: str = "local"
    """How they are reached, as `Fleet.how` says."""
    ways: dict[str, Node] = {}

    @property
    def are_apart(self) -> bool:
        """Whether there are several machines: what is reached locally is this one, however often it is named."""
        return len(self.snapshots) > 1 and self.how != "local"

    @property
    def head(self) -> str:
        return next(iter(self.snapshots), "")

    def on(self, node: str, line: Command) -> Command:
        """A line to paste here that runs `line` on a node; the line alone where nothing leads there."""
        if self.how == "ssh":
            return over_ssh(ssh_words(self.ways.get(node, Node(node))), line)
        if self.how == "srun":
            return command("srun --nodelist={:name} --nodes=1 --ntasks=1 sh -c {:remote}", node, line)
        return line

    def values(self, fact: Callable[[Snapshot], Any]) -> dict[str, Any]:
        """A fact of each node where it was read."""
        by_node = {}
        for name, snapshot in self.snapshots.items():
            try:
                by_node[name] = fact(snapshot)
            except NotRead:
                continue
        return by_node


def ssh_words(node: Node) -> Command:
    """How ssh is told of a node: "-p 2222 user@host"."""
    login = f"{node.user}@{node.name}" if node.user else node.name
    return command("-p {:number} {:login}", node.port, login) if node.port else command("{:login}", login)


def nodes_of(
    fleet: Fleet, snapshots: Mapping[int, Snapshot], settings: Mapping[str, str], backend: Literal["nccl", "gloo"]
) -> Nodes:
    """The nodes that could be examined."""
    return Nodes(
        {fleet.name(node): under(snapshots[node], settings) for node in sorted(snapshots)},
        backend,
        fleet.how,
        {node.name: node for node in fleet.nodes},
    )


def under(snapshot: Snapshot, settings: Mapping[str, str]) -> Snapshot:
    """The snapshot as if the machine's environment had these settings."""
    environment = snapshot.environment
    if not settings or not environment.is_read:
        return snapshot
    return msgspec.structs.replace(snapshot, environment=read(environment.source, {**environment.value, **settings}))


def of(node: str, reading: Reading[Any]) -> Reading[Any]:
    """A reading whose source says on which node it was read."""
    return msgspec.structs.replace(reading, source=f"{node}: {reading.source}")
