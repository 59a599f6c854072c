"""What the rules of `gpudoctor env` ask first: how many nodes, which interfaces are real, does RDMA carry the data."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor.knowledge.job import GROUPS, is_multi_node
from gpudoctor.knowledge.nccl.settings import effective, set_integer, set_text
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.network.interface_roles import has_address, inside_reason
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import Gid, Interface, NotRead, RdmaDevice, RdmaPort, Snapshot


class Scope(NamedTuple):
    """For how many nodes the advice is."""

    several: bool
    """Whether more than one node may take part."""
    sentence: str


def scope(machine: Snapshot, nodes: int | None) -> Scope:
    """For how many nodes: what was asked for, else what the environment shows, else several, for that may be."""
    if nodes is not None:
        return Scope(nodes > 1, f"For {nodes} nodes, as asked for." if nodes > 1 else "For one node, as asked for.")
    environment: Mapping[str, str] = machine.environment.value_or({})
    if is_multi_node(environment):
        return Scope(True, "For several nodes: the environment shows a launch over more than one.")
    if _is_single_node(environment):
        return Scope(False, "For one node: the environment shows a launch on this node alone.")
    return Scope(
        True, "The environment shows no launch, so several nodes are taken to be possible; --nodes 1 is for this one."
    )


def _is_single_node(environment: Mapping[str, str]) -> bool:
    """Whether the environment shows a launch that ends at this node."""
    return environment.get("SLURM_NNODES", environment.get("SLURM_JOB_NUM_NODES")) == "1" or any(
        environment.get(every, "") == environment.get(local) for every, local in GROUPS
    )


def having(machine: Snapshot, variables: Mapping[str, str]) -> Snapshot:
    """The machine as it would be with these variables set in the environment. Raises `NotRead`."""
    if not variables:
        return machine
    environment = machine.environment
    return replace(machine, environment=replace(environment, found={**environment.value, **variables}))


def without(machine: Snapshot, *names: str) -> Snapshot:
    """The machine as it would be with these variables set nowhere. Raises `NotRead`."""
    environment = machine.environment
    kept = {name: value for name, value in environment.value.items() if name not in names}
    files = tuple(
        replace(
            file,
            settings=replace(
                file.settings,
                found={name: value for name, value in file.settings.value.items() if name not in names},
            ),
        )
        if file.settings.is_read
        else file
        for file in machine.network.nccl_files.value
    )
    return replace(
        machine,
        environment=replace(environment, found=kept),
        network=replace(machine.network, nccl_files=replace(machine.network.nccl_files, found=files)),
    )


def real_interfaces(machine: Snapshot) -> tuple[Interface, ...]:
    """Interfaces that other nodes may be behind. Best first: with the default route, then the fastest.

    Raises `NotRead`.
    """
    interfaces, routed = machine.network.interfaces.value, _default_routes(machine)
    real = [
        interface
        for interface in interfaces
        if interface.is_up
        and interface.is_running
        and has_address(interface)
        and not inside_reason(interface, interfaces)
    ]
    return tuple(sorted(real, key=lambda interface: (interface.name not in routed, -(interface.speed_mbps or 0))))


def _default_routes(machine: Snapshot) -> set[str]:
    """Interfaces of the default routes; empty where the routes could not be read, which only changes an order."""
    routes = machine.network.routes.value_or(())
    return {route.interface for route in routes if route.destination in ("0.0.0.0/0", "::/0")}


def rdma_ports(machine: Snapshot) -> tuple[tuple[RdmaDevice, RdmaPort], ...]:
    """The RDMA ports that can carry NCCL's data. Raises `NotRead`.

    A RoCE port without any GID is among NCCL's choice and connects to nobody, so it is not among these.
    """
    return tuple(pair for pair in taken_ports(machine) if can_connect(pair[1]) is not False)


def taken_ports(machine: Snapshot) -> tuple[tuple[RdmaDevice, RdmaPort], ...]:
    """The RDMA ports that NCCL takes. Raises `NotRead`."""
    if set_text(effective(machine), "NCCL_NET").lower() == "socket":
        return ()
    taken = set(rdma_choice(machine).taken)
    return tuple(
        (device, port)
        for device in machine.network.rdma_devices.value
        for port in device.ports
        if (device.name, port.number) in taken
    )


def switched_off(machine: Snapshot) -> list[str]:
    """The settings ("NCCL_IB_DISABLE=1") that keep NCCL from RDMA ports that could connect; none where nothing does."""
    try:
        settings = effective(machine)
        off = {
            "NCCL_IB_DISABLE": set_integer(settings, "NCCL_IB_DISABLE", 0) != 0,
            "NCCL_NET": set_text(settings, "NCCL_NET").lower() == "socket",
        }
        names = [name for name, is_off in off.items() if is_off]
        if not names or not data_over_sockets(machine) or not rdma_ports(without(machine, *names)):
            return []
    except NotRead:
        return []
    return [f"{name}={settings[name].value}" for name in names]


def can_connect(port: RdmaPort) -> bool | None:
    """Whether a port has any GID to connect with; None when its table could not be read.

    RoCE has one for each address of its interface. A link-local or v1 GID still reaches nodes on the same switch.
    """
    if port.link_layer.value_or("") != "Ethernet":
        return True
    gids = port.gids.value_or(None)
    return None if gids is None else bool(gids)


def is_routable_v2(gid: Gid) -> bool:
    """Whether NCCL 2.21 and later would choose a GID, and older ones should be pointed at it."""
    return gid.type == "RoCE v2" and not is_link_local(gid.gid)


def is_link_local(gid: str) -> bool:
    """fe80::/10, as sysfs writes it."""
    return gid[:4].lower() in ("fe80", "fe90", "fea0", "feb0")
