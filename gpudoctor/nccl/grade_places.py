"""Where the ranks of a run were: each node with its snapshot, its ranks and what NCCL logged there."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpudoctor.knowledge.bandwidth.links import in_sysfs
from gpudoctor.knowledge.nccl.log import LogFacts, read_log
from gpudoctor.nccl.rank_messages import Member
from gpudoctor.nccl.result import RunResult
from gpudoctor.snapshot import Snapshot

MOST_LOG_CHARACTERS = 32 * 2**20
"""Of all ranks together, about 10 s of reading. Above it, one rank of each node is heard, whose paths are like those of
the others."""


class GradedPlace(Struct, frozen=True, kw_only=True):
    """A node of the run."""

    node: str
    machine: Snapshot | None
    """None where nothing was read of it."""
    members: tuple[Member, ...]
    log: LogFacts = LogFacts()
    text: str = ""
    """The log itself, of all its ranks."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """PCI addresses of its ranks' GPUs, each once, in sysfs' form; "" for a rank that did not say."""
        return tuple(dict.fromkeys(in_sysfs(member.bus_id) for member in self.members))


def places(run: RunResult, snapshots: Mapping[str, Snapshot], logs: Mapping[int, str]) -> tuple[GradedPlace, ...]:
    """The nodes that have ranks, in order of node rank."""
    members: dict[str, list[Member]] = {}
    nodes = nodes_of_ranks(run, snapshots)
    for member in run.members:
        members.setdefault(nodes[member.rank], []).append(member)
    order = {name: index for index, name in enumerate(run.nodes)}
    graded = []
    whole = sum(map(len, logs.values())) <= MOST_LOG_CHARACTERS
    for name in sorted(members, key=lambda name: order.get(name, len(order))):
        heard = members[name] if whole else [min(members[name], key=lambda member: member.local_rank)]
        text = "\n".join(logs.get(member.rank, "") for member in heard)
        machine = snapshots.get(name)
        graded.append(
            GradedPlace(node=name, machine=machine, members=tuple(members[name]), log=read_log(text), text=text)
        )
    return tuple(graded)


def nodes_of_ranks(run: RunResult, snapshots: Mapping[str, Snapshot]) -> dict[int, str]:
    """Rank -> the node's name: as its agent said, else by the host's name, else by the order of the hosts.

    Host names alone may mislead: containers on several nodes can have the same.
    """
    known = {state.rank: end.node for end in run.ends for state in end.ranks}
    hosts = tuple(dict.fromkeys(member.host for member in run.members))
    by_order = dict(zip(hosts, run.nodes, strict=False)) if len(hosts) == len(run.nodes) else {}
    by_hostname = {
        machine.host.hostname.value: name for name, machine in snapshots.items() if machine.host.hostname.is_read
    }

    def node(member: Member) -> str:
        if member.rank in known:
            return known[member.rank]
        if member.host in run.nodes:
            return member.host
        named = by_hostname.get(member.host) if len(by_hostname) == len(snapshots) else None
        return named or by_order.get(member.host, member.host)

    return {member.rank: node(member) for member in run.members}


def sharing_gpus(graded_places: Sequence[GradedPlace]) -> tuple[tuple[Member, ...], ...]:
    """Groups of ranks that use one GPU: same node, same PCI address."""
    groups: dict[tuple[str, str], list[Member]] = {}
    for place in graded_places:
        for member in place.members:
            if member.bus_id:
                groups.setdefault((place.node, in_sysfs(member.bus_id)), []).append(member)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def merged(graded_places: Sequence[GradedPlace]) -> LogFacts:
    """What the first log that says anything tells of the whole run: the same on every rank."""
    return next((place.log for place in graded_places if place.log != LogFacts()), LogFacts())
