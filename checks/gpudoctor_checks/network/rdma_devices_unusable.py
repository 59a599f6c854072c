"""RDMA ports are ACTIVE, and this process may not open the devices.

Why it matters: /sys shows the HCAs of the machine inside every container, while /dev/infiniband must be given to it.
Without the files NCCL finds no RDMA device, says so at NCCL_DEBUG=INFO only, and runs over TCP, 5 to 20 times slower.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_selection import usable_ports, verbs_nodes
from gpudoctor.knowledge.wording import counted


@check("rdma-devices-unusable", title="The RDMA device files can be opened")
def rdma_devices_unusable(machine: Snapshot) -> Problems:
    ports, nodes = usable_ports(machine), machine.network.rdma_nodes
    verbs = verbs_nodes(machine)
    if not ports or not gpu_count(machine) or any(node.readable and node.writable for node in verbs):
        return
    seen = f"{counted(len(ports), 'RDMA port')} {'is' if len(ports) == 1 else 'are'} ACTIVE"
    if verbs:
        node = verbs[0]
        summary = (
            f"{seen}, but {node.path} cannot be opened by this user "
            f"(mode {node.mode:04o}, owner {node.owner}, group {node.group})"
        )
        fix = Fix.of(
            "Give users the files: rdma-core's udev rules set mode 0666.",
            command("ls -l /dev/infiniband"),
            command("sudo chmod 0666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm"),
        )
    elif in_container(machine):
        summary = f"{seen}, but this container has no /dev/infiniband/uverbs*"
        fix = Fix(
            "Start the container with the devices, and with locked memory unlimited. In Kubernetes, ask for the RDMA "
            "device plugin's resource.",
            commands=(command("docker run --gpus all --device /dev/infiniband --ulimit memlock=-1 ..."),),
        )
    else:
        summary = f"{seen}, but there is no /dev/infiniband/uverbs*"
        fix = Fix(
            "Load the module that makes the files.",
            commands=(command("sudo modprobe ib_uverbs"), command("ls -l /dev/infiniband")),
        )
    yield Problem(
        severity="warning",
        summary=summary,
        meaning="NCCL finds no RDMA device and falls back to TCP without a warning.",
        evidence=(nodes, ports[0][1].state),
        fix=fix,
    )
