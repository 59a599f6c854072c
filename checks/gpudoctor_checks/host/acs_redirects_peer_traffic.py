"""PCI Access Control Services send traffic between GPUs through the CPU.

Why it matters: with ACS on, a PCIe switch hands every packet from GPU to GPU to the CPU's root complex. Transfers
become slow, and collectives may hang (NCCL's troubleshooting page). In a virtual machine ACS is the hypervisor's,
which needs it; GPUs behind NVLink do not need the switch.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.pcie_peers import is_bare_metal, pcie_peers, redirecting_switch_ports
from gpudoctor.knowledge.wording import counted, listed


@check("acs-redirects-peer-traffic", title="PCIe switches pass traffic between GPUs directly")
def acs_redirects_peer_traffic(machine: Snapshot) -> Problems:
    pairs, bridges = pcie_peers(machine), machine.host.acs_bridges
    if not pairs or not is_bare_metal(machine):
        return
    redirecting = redirecting_switch_ports(bridges.value)
    if redirecting:
        yield Problem(
            severity="warning",
            summary=f"ACS redirects peer traffic on {counted(len(redirecting), 'switch port')} "
            f"({listed(redirecting, 3)}), and {counted(len(pairs) // 2, 'pair')} of GPUs exchange data over PCIe",
            meaning="Transfers between these GPUs take the way through the CPU: slow, and collectives may hang.",
            evidence=(bridges, machine.nvidia.peers),
            fix=Fix(
                "Turn ACS off in the BIOS, or on each port until the next restart. Do not on a host that passes "
                "GPUs to virtual machines: ACS keeps these apart.",
                commands=tuple(
                    command("sudo setpci -v -s {:pci} ECAP_ACS+0x6.w=0000", bus_id) for bus_id in redirecting
                ),
            ),
        )
