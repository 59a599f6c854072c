"""NCCL listens on another network than the one over which MASTER_ADDR is reached.

Why it matters: the store and NCCL's own connections go separate ways. A job whose nodes share MASTER_ADDR's network
only finds its store, and then waits in its first collective, because NCCL gave out an address that nobody reaches.
"""

import ipaddress

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.interfaces import IFNAME, is_set, nccl_choice
from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.network.addresses import IpAddress, parsed
from gpudoctor.knowledge.network.interface_roles import find, seen
from gpudoctor.knowledge.network.rendezvous_job import rendezvous
from gpudoctor.snapshot import Address, Interface


@check("socket-interface-off-route", title="NCCL listens on the network that MASTER_ADDR is on")
def socket_interface_off_route(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    if meeting.is_local.value or not meeting.resolved.value:
        return
    interfaces = machine.network.interfaces.value
    choice = nccl_choice(machine)
    first = find(interfaces, choice.first)
    shared = _interface_towards(machine, parsed(meeting.resolved.value[0], meeting.resolved))
    # IPoIB first, or a name that somebody wrote, is meant.
    meant = is_set(set_text(effective(machine), IFNAME)) or first is None or first.kind in ("ipoib", "loopback")
    if shared is None or first is None or meant or shared.name == first.name:
        return
    yield Problem(
        severity="info",
        summary=f"NCCL takes {first.name} ({choice.first_address}) first, and {meeting.address} "
        f"({meeting.resolved.value[0]}) is on the network of {shared.name}",
        meaning="It works where the nodes share both networks. Where they share only one, the store is found and the "
        "first collective waits until its time-out.",
        evidence=(seen(machine, first.name, shared.name), machine.network.rendezvous),
        fix=Fix(
            f"Where {first.name} does not lead to the other nodes, name the one that does, on every node.",
            commands=(command("export {:variable}={:value}", IFNAME, "=" + shared.name),),
        ),
    )


def _interface_towards(machine: Snapshot, wanted: IpAddress) -> Interface | None:
    """The interface whose own network holds the address; None when it is behind a router."""
    source = machine.network.interfaces
    for interface in source.value:
        for own in interface.addresses:
            if interface.is_running and own.scope == "global" and _holds(parsed(own.address, source), own, wanted):
                return interface
    return None


def _holds(address: IpAddress, own: Address, wanted: IpAddress) -> bool:
    network = ipaddress.ip_interface(f"{address}/{own.prefix_length}").network
    return network.version == wanted.version and network.prefixlen < network.max_prefixlen and wanted in network
