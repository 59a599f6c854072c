"""What the ranks told of themselves through torch's store, compared: the preflight of a world that others started."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.knowledge.nccl.rank_settings import differences
from gpudoctor.knowledge.wording import counted, ranges
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.rank_messages import Member
from gpudoctor.snapshot import RankSettings, read

VERSIONS: tuple[tuple[str, Callable[[Member], str]], ...] = (
    ("torch", lambda member: member.torch),
    ("CUDA", lambda member: member.cuda),
    ("NCCL", lambda member: member.nccl),
)


def member_findings(members: Sequence[Member], *, expected_size: int, expected_nodes: int) -> tuple[Finding, ...]:
    """`expected_size`, `expected_nodes`: as the launcher says; 0 where it does not."""
    return (*_world(members, expected_size, expected_nodes), *_versions(members), *_settings(members))


def _hosts(members: Sequence[Member]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member.host for member in members))


def _world(members: Sequence[Member], size: int, nodes: int) -> Iterator[Finding]:
    if not members:
        return
    seen, hosts = members[0].world_size, _hosts(members)
    evidence = (read("torch.distributed.get_world_size", seen), read("hostnames of the ranks", hosts))
    if size and seen != size:
        yield finding(
            "launcher-world-mismatch",
            "error",
            f"The launcher says {counted(size, 'rank')}, torch.distributed sees {seen}",
            meaning="There are several worlds beside each other, and each trains by itself.",
            fix="Start all ranks with one launcher and one MASTER_ADDR.",
            evidence=evidence,
            nodes=hosts,
        )
    if nodes and len(hosts) != nodes:
        yield finding(
            "world-on-other-nodes",
            "warning",
            f"The launcher says {counted(nodes, 'node')}, the ranks run on {counted(len(hosts), 'hostname')} "
            f"({', '.join(hosts[:8])})",
            meaning="The figures are those of other paths than meant: ranks share a node, or nodes share a hostname.",
            fix="Look where the launcher places its tasks, and that each node has a hostname of its own.",
            evidence=evidence,
            nodes=hosts,
        )


def _versions(members: Sequence[Member]) -> Iterator[Finding]:
    for noun, version in VERSIONS:
        counts = Counter(version(member) for member in members if version(member))
        if len(counts) < 2:
            continue
        usual = counts.most_common(1)[0][0]
        others = [member for member in members if version(member) not in ("", usual)]
        named = ", ".join(
            f"{value} on {', '.join(_hosts([member for member in others if version(member) == value])[:8])}"
            for value in dict.fromkeys(version(member) for member in others)
        )
        yield finding(
            "nccl-versions-differ-between-nodes" if noun == "NCCL" else f"{noun.lower()}-versions-differ",
            "error",
            f"{noun} is {usual} on {counted(counts[usual], 'rank')} and {named}",
            meaning="Ranks of different versions hang in their first collective, fail there, or compute other numbers.",
            fix=f"Install {noun} {usual} on the nodes that have another, as the training environment there is built.",
            evidence=tuple(read(f"rank {member.rank} on {member.host}", version(member)) for member in others[:8]),
            nodes=_hosts(others),
        )


def _settings(members: Sequence[Member]) -> Iterator[Finding]:
    ranks = tuple(
        RankSettings(pid=0, rank=member.rank, world_size=member.world_size, settings=member.settings)
        for member in members
    )
    if len(ranks) < 2:
        return
    version = next((_numbers(member.nccl) for member in members if member.nccl), None)
    for difference in differences(ranks, version):
        rare = [rank for value, some in difference.ranks.items() if value != difference.usual for rank in some]
        where = _hosts([member for member in members if member.rank in rare])
        usual = difference.usual
        yield finding(
            "nccl-settings-differ-between-ranks",
            "error" if difference.hangs else "warning",
            difference.described(),
            meaning="Ranks that choose differently wait for one another for ever."
            if difference.hangs
            else "The ranks do not behave alike, and the slowest of them sets the pace.",
            fix=f"Give {difference.name} the same value on all ranks, or none"
            + (f"; most have {usual[:60]!r}." if usual is not None else "; most have none."),
            evidence=tuple(
                read(f"environment of ranks {ranges(some)}", value if value is not None else "not set")
                for value, some in list(difference.ranks.items())[:4]
            ),
            nodes=where,
        )


def _numbers(version: str) -> tuple[int, int, int] | None:
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])
