"""Which nodes a command means, and how they are reached: ssh, srun, joining, or this machine alone."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.knowledge.wording import counted


class Where(NamedTuple):
    """The options that name nodes."""

    nodes: int | None = None
    hosts: str | None = None
    hostfile: str | None = None
    exclude: str = ""
    remote_gpudoctor: str = ""
    wait: float = 600.0
    """Seconds that nodes have to join."""

    @property
    def is_named(self) -> bool:
        return self.hosts is not None or self.hostfile is not None


def named_nodes(where: Where) -> tuple[Node, ...]:
    """The nodes of --hosts or --hostfile without those of --exclude. Raises `BadInput`."""
    from gpudoctor.fleet.hosts import BadHosts, from_hostfile, from_hosts

    if where.hosts is not None and where.hostfile is not None:
        raise BadInput("--hosts and --hostfile exclude each other")
    try:
        found = from_hosts(where.hosts) if where.hosts is not None else from_hostfile(where.hostfile or "")
        left_out = {node.name for node in from_hosts(where.exclude)} if where.exclude else set()
    except BadHosts as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"--hostfile {where.hostfile}: {error.strerror or error}") from None
    kept = tuple(node for node in found if node.name not in left_out)
    if not kept:
        raise BadInput("--exclude leaves no node")
    if where.nodes is not None and where.nodes > len(kept):
        raise BadInput(f"--nodes {where.nodes}, but {counted(len(kept), 'host')} named")
    return kept[: where.nodes]


def enough_descriptors(how: str, nodes: int = 1) -> None:
    """Raise `BadInput` where this process may have too few descriptors for so many nodes reached in this way."""
    from gpudoctor.fleet.descriptors import TooFew, ensure

    try:
        ensure(how, nodes)
    except TooFew as error:
        raise BadInput(str(error)) from None


def local_fleet() -> Fleet:
    """This machine alone. Raises `BadInput`."""
    from gpudoctor.fleet.local import LocalFleet

    enough_descriptors("local")
    return LocalFleet()


def ssh_fleet(where: Where) -> Fleet:
    """The named nodes through ssh. Raises `BadInput`."""
    from gpudoctor.fleet.ssh import SshFleet
    from gpudoctor.fleet.ssh_command import BadSsh, Remote

    nodes = named_nodes(where)
    enough_descriptors("ssh", len(nodes))
    try:
        return SshFleet(nodes, remote=Remote(gpudoctor=where.remote_gpudoctor))
    except BadSsh as error:
        raise BadInput(str(error)) from None


def slurm_fleet(where: Where) -> Fleet:
    """The allocation's nodes through srun. Raises `BadInput`."""
    from gpudoctor.fleet.hosts import BadHosts, from_hosts
    from gpudoctor.fleet.slurm import NoSlurm, SlurmFleet

    enough_descriptors("srun")
    try:
        left_out = tuple(node.name for node in from_hosts(where.exclude)) if where.exclude else ()
        return SlurmFleet.inside(nodes=where.nodes or 0, exclude=left_out)
    except (NoSlurm, BadHosts) as error:
        raise BadInput(str(error)) from None


def in_allocation(environment: Mapping[str, str]) -> bool:
    from gpudoctor.fleet.slurm import situation

    return situation(environment) == "allocation"


def standing_fleet(where: Where, environment: Mapping[str, str]) -> Fleet:
    """The nodes that were named, or those of the Slurm allocation; none has to join. Raises `BadInput`."""
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
    from gpudoctor.fleet.slurm import situation

    if where.is_named:
        return False
    return situation(environment) == "step" or "TORCHELASTIC_RUN_ID" in environment


def join_fleet(
    where: Where,
    *,
    interface: str,
    address: str,
    on_line: Callable[[str], None],
    on_joined: Callable[[str], None],
    on_notice: Callable[[str], None],
) -> Fleet:
    """This machine and those that join; `on_line` gets the line to paste there, `on_joined` who is there, in words.

    `on_notice` gets a line when somebody was not let in.

    Raises `BadInput`.
    """
    from gpudoctor.fleet.join import JoinFleet, NoListener
    from gpudoctor.fleet.own_address import NoAddress, own_address

    count = where.nodes or 1
    enough_descriptors("join", count)
    try:
        fleet = JoinFleet(
            count,
            address=address or own_address(interface),
            wait=where.wait,
            on_joined=lambda names: on_joined(f"{len(names)}/{count} nodes: {', '.join(names)}"),
            on_turned_away=on_notice,
        )
    except (NoAddress, NoListener) as error:
        raise BadInput(str(error)) from None
    on_line(fleet.line)
    return fleet


def fleet_for(
    where: Where,
    *,
    interface: str = "",
    address: str = "",
    on_line: Callable[[str], None],
    on_joined: Callable[[str], None],
    on_notice: Callable[[str], None],
) -> Fleet:
    """The fleet that the options and the environment mean: ssh, srun, joining, or this machine.

    Raises `BadInput`.
    """
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
