"""Ports that carry training traffic have different MTUs.

Why it matters: every rail has to be set up alike. With RoCE the path's MTU follows the interface's, and two ends that
disagree fail to connect (ibv_modify_qp, "Invalid argument"); with TCP the port with the small MTU is slower, and large
packets between the two are dropped on some networks.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.interface_roles import seen, siblings
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.wording import listed


@check("mtu-differs-between-nics", title="Ports that carry training traffic have one MTU")
def mtu_differs_between_nics(machine: Snapshot) -> Problems:
    taken = {device for device, _ in rdma_choice(machine).taken}
    carrying = {
        name for device in machine.network.rdma_devices.value if device.name in taken for name in device.interfaces
    }
    for group in siblings(machine):
        ports = [port for port in group if port.name in carrying and port.kind == "ethernet" and port.mtu]
        largest = max((port.mtu or 0 for port in ports), default=0)
        smaller = [port for port in ports if port.mtu != largest]
        if not smaller:
            continue
        yield Problem(
            severity="warning",
            summary=f"{listed(f'{port.name} has MTU {port.mtu}' for port in smaller)}; "
            f"the other RoCE ports of NCCL have {largest}",
            meaning="Connections over these ports fail, or are slower than over the others.",
            evidence=(seen(machine, *(port.name for port in ports)), machine.network.rdma_devices),
            fix=Fix(
                "Give them the MTU of the others where the switches carry it, and make it last in the network's "
                "configuration.",
                commands=tuple(
                    command("sudo ip link set {:interface} mtu {:number}", port.name, largest) for port in smaller
                ),
            ),
        )
