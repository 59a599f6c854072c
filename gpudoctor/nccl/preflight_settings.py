"""Settings of NCCL, gloo and torch.distributed that the nodes do not have alike."""

from collections.abc import Iterator

from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.nccl.rank_settings import RankDifference, differences
from gpudoctor.knowledge.nccl.settings import effective, version_if_known
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.snapshot import NotRead, RankSettings, Snapshot, read

FAMILIES = ("NCCL_", "TORCH_NCCL_", "GLOO_")


def settings_findings(nodes: Nodes) -> Iterator[Finding]:
    """One for each variable. The nodes' own files of settings count as NCCL reads them."""
    names = list(nodes.snapshots)
    ranks = []
    for number, snapshot in enumerate(nodes.snapshots.values()):
        settings = _settings(snapshot)
        if settings is not None:
            ranks.append(RankSettings(pid=0, rank=number, world_size=len(names), settings=settings))
    if len(ranks) < 2:
        return
    version = next(
        (version_here for snapshot in nodes.snapshots.values() if (version_here := version_if_known(snapshot))), None
    )
    for difference in differences(tuple(ranks), version):
        yield _finding(nodes, names, difference)


def _settings(snapshot: Snapshot) -> dict[str, str] | None:
    """None when the environment was not read; without the files where those could not be."""
    if not snapshot.environment.is_read:
        return None
    settings = {name: value for name, value in snapshot.environment.value.items() if name.startswith(FAMILIES)}
    try:
        return settings | {name: setting.value for name, setting in effective(snapshot).items()}
    except NotRead:
        return settings


def _finding(nodes: Nodes, names: list[str], difference: RankDifference) -> Finding:
    groups = [(value, tuple(names[rank] for rank in ranks)) for value, ranks in difference.ranks.items()]
    usual, *rare = groups
    other = tuple(node for _, group in rare for node in group)
    words = [
        f"{'not set' if value is None else repr(value[:60])} on {folded(group)}" for value, group in [*rare[:3], usual]
    ]
    kept = usual[0] if usual[0] is not None else next((value for value, _ in rare if value is not None), "")
    concerns = nodes.backend == "nccl" or difference.name.startswith("GLOO_")
    # What interfaces come to is tried: `preflight_ports`.
    hangs = difference.hangs and not difference.name.endswith("_IFNAME")
    if not concerns:
        meaning = "This test runs on gloo, which does not read it; training on NCCL does."
    elif hangs:
        meaning = (
            "Each rank chooses by its own setting, and ranks that chose differently wait for one another for ever."
        )
    else:
        meaning = "The ranks do not behave alike, and the slowest of them sets the pace."
    return finding(
        "settings-differ-between-nodes",
        ("error" if hangs else "warning") if concerns else "info",
        f"{difference.name} is {', '.join(words)}",
        meaning=meaning,
        fix="Set it alike everywhere: what is exported here is set for all ranks of the test. Where it comes from on "
        "the nodes is a shell's start-up file, /etc/nccl.conf or ~/.nccl.conf.",
        commands=(
            command("export {:variable}={:value}", difference.name, kept),
            *(
                nodes.on(name, command("grep -ns {:variable} /etc/nccl.conf ~/.nccl.conf ~/.bashrc", difference.name))
                for name in other[:2]
            ),
        ),
        evidence=tuple(read(f"{group[0]}: {difference.name}", value or "not set") for value, group in groups[:3]),
        nodes=other,
    )
