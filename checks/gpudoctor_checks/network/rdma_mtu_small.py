"""A RoCE port's network interface has a small MTU.

Why it matters: RDMA packets carry 256, 512, 1024, 2048 or 4096 bytes, the largest that fits. With an MTU of 1500
that is 1024: four times the packets of an MTU of 4200 or 9000, and some percent of the bandwidth. Every switch on
the way must carry the larger size. (InfiniBand specification, path MTU; NVIDIA's RoCE guide asks for 4200 or more.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rdma_ports import DevicePort, is_roce, taken
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import Interface

WANTED = 4200  # NVIDIA, "Recommended network configuration examples for RoCE deployment": 4096 and the headers


@check("rdma-mtu-small", title="RoCE ports carry packets of 4096 bytes")
def rdma_mtu_small(machine: Snapshot) -> Problems:
    roce = [place for place in _fabric(list(taken(machine, rdma_choice(machine).taken))) if is_roce(place.port)]
    if not roce:
        return
    by_name = {interface.name: interface for interface in machine.network.interfaces.value}
    small: dict[str, Interface] = {}
    for place in roce:
        for interface in (by_name[name] for name in _interfaces(place) if name in by_name):
            if interface.mtu is not None and interface.mtu < WANTED:
                small[interface.name] = interface
    if small:
        mtus = sorted({interface.mtu for interface in small.values() if interface.mtu is not None})
        yield Problem(
            severity="info",
            summary=f"{listed(small)} of RoCE {'has' if len(small) == 1 else 'have'} an MTU of "
            f"{listed(str(mtu) for mtu in mtus)}; {WANTED} or more carries RDMA packets of 4096 bytes",
            meaning="Collectives between nodes lose some percent of the bandwidth to headers.",
            evidence=(machine.network.interfaces,),
            fix=Fix(
                "Raise it on all nodes and switches of this network alike; where they differ, large messages are lost.",
                commands=tuple(command("sudo ip link set dev {:interface} mtu 9000", name) for name in list(small)[:8]),
            ),
        )


def _fabric(places: list[DevicePort]) -> list[DevicePort]:
    """Without slower ports of another board: a management network has 1500 on purpose."""
    fastest = max((place.port.rate_gbps.value_or(0.0) for place in places), default=0.0)
    first = [place for place in places if place.port.rate_gbps.value_or(0.0) == fastest]
    boards = {place.device.board_id.value_or("") for place in first}
    return [place for place in places if place in first or place.device.board_id.value_or("") in boards]


def _interfaces(place: DevicePort) -> list[str]:
    """The port's network interfaces; those of its GIDs where they are known (a bond has the addresses then)."""
    gids = place.port.gids.value_or(())
    return list(dict.fromkeys(gid.interface for gid in gids if gid.interface)) or list(place.device.interfaces)
