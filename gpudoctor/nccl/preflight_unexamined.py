"""Nodes that are there and of which no snapshot came: why, as far as that can be told from here."""

from collections.abc import Mapping

from gpudoctor.command import command
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.snapshot import read

MOST_NAMED = 4


def unexamined_finding(unread: Mapping[str, str]) -> Finding:
    """`unread`: node -> why."""
    names = tuple(unread)
    return finding(
        "node-not-examined",
        "error",
        f"{folded(names)} could not be examined: {next(iter(unread.values()))}",
        meaning="Nothing is known of what training needs there.",
        fix="Run gpudoctor on the node itself, and look what it waits for.",
        commands=(command("gpudoctor check"),),
        evidence=tuple(read(f"{name}: examination", why) for name, why in list(unread.items())[:MOST_NAMED]),
        nodes=names,
    )


def stuck_finding(nodes: Nodes, names: tuple[str, ...], seconds: float) -> Finding:
    """Small messages came from these nodes, a large one did not within `seconds`, nor anything behind it."""
    way = {"ssh": "ssh", "srun": "srun", "join": "the connection by which it joined"}.get(nodes.how, nodes.how)
    return finding(
        "large-packets-lost",
        "error",
        f"Between this machine and {folded(names)} small messages get through and large ones do not: pings were "
        f"answered, the examination did not arrive within {seconds:g} s, and no ping after it",
        meaning=f"That is how a way looks that carries only smaller packets than its ends believe (MTU), here the way "
        f"of {way}. What the ranks send would hang in the same manner where it takes that way. A node that froze at "
        "this moment looks alike.",
        fix="Find the largest packet that passes: the first line gets no answer where 1500 bytes are too many, the "
        "second one does. Then give the interfaces on both ends the MTU that the whole way carries, or raise that of "
        "the switch or tunnel between them.",
        commands=tuple(
            line
            for name in names[:MOST_NAMED]
            for line in (
                command("ping -c 2 -M do -s 1472 {:host}", name),
                command("ping -c 2 -M do -s 1172 {:host}", name),
                nodes.on(name, command("ip -brief link")),
            )
        )[: MOST_NAMED * 2],
        evidence=tuple(
            read(f"{name}: examination", f"no answer within {seconds:g} s, pings before it were answered")
            for name in names[:MOST_NAMED]
        ),
        nodes=names,
    )
