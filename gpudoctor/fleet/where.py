"""Which nodes are meant, and how they are reached: ssh, srun, joining, or this machine alone. All raise `BadInput`."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpudoctor.errors import BadInput
from gpudoctor.fleet.descriptors import ensure
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.fleet.hosts import from_hostfile, from_hosts
from gpudoctor.fleet.meet_at import MeetAt
from gpudoctor.fleet.slurm import situation
from gpudoctor.knowledge.wording import counted

Say = Callable[[str], None]


MEET_SECONDS = 15.0
"""For nodes of a job to come to a look: an interpreter starts there, on a node whose processors may be taken."""


class Where(NamedTuple):
    """The options that name nodes."""

    nodes: int | None = None
    hosts: str | None = None
    hostfile: str | None = None
    exclude: str | None = None
    remote_gpudoctor: str | None = None
    wait: float = 600.0
    """Seconds that nodes have to join."""
    meet: "MeetAt | None" = None

    @property
    def is_named(self) -> bool:
        return self.hosts is not None or self.hostfile is not None

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(node.name for node in from_hosts(self.exclude)) if self.exclude else ()


def named_nodes(where: Where) -> tuple[Node, ...]:
    """The nodes of --hosts or --hostfile without those of --exclude."""
    if where.hosts is not None and where.hostfile is not None:
        raise BadInput("--hosts and --hostfile exclude each other")
    try:
        nodes = from_hosts(where.hosts) if where.hosts is not None else from_hostfile(where.hostfile or "")
    except OSError as error:
        raise BadInput(f"--hostfile {where.hostfile}: {error.strerror or error}") from None
    kept = tuple(node for node in nodes if node.name not in where.left_out)
    if not kept:
        raise BadInput("--exclude leaves no node")
    if where.nodes is not None and where.nodes > len(kept):
        raise BadInput(f"--nodes {where.nodes}, but {counted(len(kept), 'host')} named")
    return kept[: where.nodes]


def local_fleet() -> Fleet:
    """This machine alone."""
    from gpudoctor.fleet.local import LocalFleet

    ensure("local")
    return LocalFleet()


def ssh_fleet(where: Where) -> Fleet:
    """The named nodes through ssh."""
    from gpudoctor.fleet.ssh import SshFleet
    from gpudoctor.fleet.ssh_command import Remote

    nodes = named_nodes(where)
    ensure("ssh", len(nodes))
    return SshFleet(nodes, remote=Remote(gpudoctor=where.remote_gpudoctor or ""))


def slurm_fleet(where: Where) -> Fleet:
    """The allocation's nodes through srun."""
    from gpudoctor.fleet.slurm import SlurmFleet

    ensure("srun")
    return SlurmFleet.inside(nodes=where.nodes or 0, exclude=where.left_out)


def in_allocation(environment: Mapping[str, str]) -> bool:
    return situation(environment) == "allocation"


def standing_fleet(where: Where, environment: Mapping[str, str]) -> Fleet:
    """The nodes that were named, or those of the Slurm allocation; none has to join."""
    if where.is_named:
        return ssh_fleet(where)
    if in_allocation(environment):
        return slurm_fleet(where)
    raise BadInput(
        f"--nodes {where.nodes}: which ones? Name them with --hosts 'n[01-{where.nodes or 2:02}]' or --hostfile FILE, "
        "or run this inside a Slurm allocation"
    )


def is_symmetric(environment: Mapping[str, str], where: Where) -> bool:
    """Whether the user's own srun or torchrun has started one of us a rank or node, and nothing names other nodes."""
    return not where.is_named and (situation(environment) == "step" or "TORCHELASTIC_RUN_ID" in environment)


def join_fleet(where: Where, *, interface: str, address: str, on_line: Say, on_joined: Say, on_notice: Say) -> Fleet:
    """This machine and those that join; `on_line` gets the line to paste there, `on_joined` who is there, in words,
    and `on_notice` what is waited for, and a line when somebody was not let in.
    """
    from gpudoctor.fleet.join import JoinFleet
    from gpudoctor.fleet.own_address import own_address

    count = where.nodes or 1
    ensure("join", count)
    fleet = JoinFleet(
        count,
        address=address or own_address(interface),
        wait=where.wait,
        on_joined=lambda names: on_joined(f"{len(names)}/{count} nodes: {', '.join(names)}"),
        on_turned_away=on_notice,
    )
    others = "1 other node" if count == 2 else f"{count - 1} other nodes"
    on_notice(f"waits up to {where.wait:g} s for {others} to join at {fleet.where} (--wait, --master-addr)")
    on_line(fleet.line)
    return fleet


def fleet_for(
    where: Where, *, interface: str = "", address: str = "", on_line: Say, on_joined: Say, on_notice: Say
) -> Fleet:
    """The fleet that the options and the environment mean: ssh, srun, joining, or this machine."""
    if where.is_named:
        return ssh_fleet(where)
    if where.exclude and not in_allocation(os.environ):
        raise BadInput("--exclude leaves out nodes of --hosts, --hostfile or a SLURM allocation; none is given")
    if in_allocation(os.environ):
        return slurm_fleet(where)
    if (where.nodes or 1) > 1:
        return join_fleet(
            where, interface=interface, address=address, on_line=on_line, on_joined=on_joined, on_notice=on_notice
        )
    return local_fleet()


def met_fleet(where: Where) -> Fleet:
    """This machine and the nodes of a job whose doctors know each other (`gpudoctor run`)."""
    from gpudoctor.fleet.join import JoinFleet
    from gpudoctor.fleet.take_part import TOKEN

    assert where.meet is not None
    at, token = where.meet, os.environ.pop(TOKEN, "")
    return JoinFleet(at.nodes, address=at.address, port=at.port, wait=MEET_SECONDS, token=token)
