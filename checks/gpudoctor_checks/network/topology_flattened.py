"""The PCI tree that this machine shows is not the one that its GPUs and NICs have.

Why it matters: NCCL pairs each GPU with the nearest NIC, and uses GPUDirect RDMA for near pairs only. A hypervisor
that passes devices through without their PCIe switches makes all look equally far: NCCL picks NICs at random and
leaves GPUDirect off. Cloud providers publish a topology file for such machines (NCCL_TOPO_FILE).
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.settings import effective
from gpudoctor.knowledge.network.rdma_ports import active
from gpudoctor.knowledge.network.topology import Disagreement, address_of, disagreements, is_flat
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import PciPath

FEWEST_OF_EACH = 2  # with one GPU or one NIC there is nothing to pair


@check("topology-flattened", title="The PCI tree shows which GPU and NIC are near each other")
def topology_flattened(machine: Snapshot) -> Problems:
    if "NCCL_TOPO_FILE" in effective(machine):
        return
    paths = machine.network.pci_paths
    gpus = [sysfs_address(gpu) for gpu in machine.nvidia.gpus.value]
    nics = list(dict.fromkeys(address_of(place.device) for place in active(machine)))
    if len(gpus) < FEWEST_OF_EACH:
        return
    if len(nics) >= FEWEST_OF_EACH and _all_flat(paths.value, [*gpus, *nics]):
        yield Problem(
            severity="warning",
            summary=f"{counted(len(gpus), 'GPU')} and {counted(len(nics), 'RDMA device')} stand on the root bus "
            "without any PCIe switch between them",
            meaning="NCCL cannot tell which NIC is near which GPU, and leaves GPUDirect RDMA off.",
            evidence=(paths,),
            fix=Fix.of(
                "Use the topology file that the provider publishes for this type of machine (Azure: in "
                "/opt/microsoft, or azhpc-images on GitHub).",
                command("ls /opt/microsoft/*.xml"),
                command("export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml"),
            ),
        )
    elif if_present(machine.nvidia.topology):
        yield from _disagreeing(machine, disagreements(machine))


def _all_flat(paths: dict[str, PciPath], addresses: list[str]) -> bool:
    return all(address in paths and is_flat(paths[address]) for address in addresses)


def _disagreeing(machine: Snapshot, pairs: tuple[Disagreement, ...]) -> Problems:
    if pairs:
        first = pairs[0]
        yield Problem(
            severity="info",
            summary=f"NVML sees GPU {first.gpu} and GPU {first.other} {first.by_nvml} apart, the PCI tree in /sys "
            f"{first.by_tree}" + (f" (and {len(pairs) - 1} more pairs differ)" if len(pairs) > 1 else ""),
            meaning="NCCL goes by /sys: it can leave out a way between GPUs that exists, or take a worse one.",
            evidence=(machine.nvidia.topology, machine.network.pci_paths),
            fix=Fix(
                "In a virtual machine, use the provider's topology file (NCCL_TOPO_FILE). Look at both trees.",
                commands=(command("nvidia-smi topo -m"), command("gpudoctor topology"), command("lspci -tv")),
            ),
            gpus=tuple(sorted({index for pair in pairs for index in (pair.gpu, pair.other)})),
        )
