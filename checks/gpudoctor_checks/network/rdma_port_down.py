"""RDMA hardware is there, and none of its ports has a link.

Why it matters: NCCL takes ports that are ACTIVE and says nothing about the others. Without one it runs over TCP,
which is 5 to 20 times slower, and only NCCL_DEBUG=INFO shows it. A port that polls is switched on and hears nothing
from the other end: cable, transceiver or switch port. (NCCL src/transport/net_ib/init.cc, all versions.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import is_pasted
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_ports import DevicePort, is_roce, places
from gpudoctor.knowledge.wording import listed

POLLING = "Polling"  # IBTA PortPhysicalState 2; Disabled (3) and Sleep (1) are an administrator's doing
DISABLED = "Disabled"  # what mlx5 says of a RoCE port without carrier too; its network interface tells the two apart


@check("rdma-port-down", title="An RDMA port has a link")
def rdma_port_down(machine: Snapshot) -> Problems:
    every = places(machine)
    if not every:
        return
    # Of pasted output: whoever asks about these ports means to use them.
    asked = is_pasted(machine) and not machine.nvidia.gpus.is_read
    if not asked and not gpu_count(machine):
        return
    if any(place.port.state.value not in ("DOWN", "NOP") for place in every):
        return
    waiting = [place for place in every if asked or _waits_for_a_link(machine, place)]
    if waiting:
        first = waiting[0]
        yield Problem(
            severity="warning",
            summary=f"no RDMA port is ACTIVE: {listed(place.name for place in waiting)} "
            f"{'is' if len(waiting) == 1 else 'are'} DOWN ({waiting[0].port.physical_state.value})",
            meaning="NCCL finds no RDMA device and falls back to TCP without a warning.",
            evidence=tuple(
                reading for place in waiting[:4] for reading in (place.port.state, place.port.physical_state)
            ),
            fix=Fix.of(
                "Look at cable, transceiver and the switch's port. Ports that are not cabled on purpose need nothing.",
                command("ibstat {:interface}", first.device.name),
                command("sudo mlxlink -d {:name} -m", _device(first)),
            ),
        )


def _waits_for_a_link(machine: Snapshot, place: DevicePort) -> bool:
    """Whether the port is switched on. Raises `NotRead`."""
    state = place.port.physical_state.value
    if state != DISABLED or not is_roce(place.port):
        return state == POLLING
    own = place.device.interfaces
    return bool(own) and any(
        interface.name in own and interface.is_up and not interface.is_running
        for interface in machine.network.interfaces.value
    )


def _device(place: DevicePort) -> str:
    return place.device.pci_bus_id.value_or(place.device.name)
