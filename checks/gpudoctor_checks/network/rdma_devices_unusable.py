"""RDMA ports are ACTIVE, and this process may not open the devices.

Why it matters: /sys shows the HCAs of the machine inside every container, while /dev/infiniband must be given to it.
Without the files NCCL finds no RDMA device, says so at NCCL_DEBUG=INFO only, and runs over TCP, 5 to 20 times slower.
A container that was given some of the files uses those devices alone.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_selection import NODES, usable_ports, verbs_nodes
from gpudoctor.knowledge.wording import counted, listed

OPEN_THEM = Fix(
    "Give this user the files, until the next restart; in a container, start it with the devices.",
    (
        command("sudo setfacl -m u:$(id -un):rw /dev/infiniband/uverbs* /dev/infiniband/rdma_cm"),
        command("ls -l /dev/infiniband"),
    ),
    otherwise=(
        Fix(
            "Give them to every user of the machine, as rdma-core's udev rules do.",
            (command("sudo chmod 0666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm"),),
        ),
    ),
)


@check("rdma-devices-unusable", title="The RDMA device files can be opened")
def rdma_devices_unusable(machine: Snapshot) -> Problems:
    ports, nodes = usable_ports(machine), machine.network.rdma_nodes
    verbs = verbs_nodes(machine)
    if not ports or not gpu_count(machine):
        return
    usable = [node for node in verbs if node.readable and node.writable]
    if usable:
        yield from _some(machine, {node.path for node in usable})
        return
    seen = f"{counted(len(ports), 'RDMA port')} {'is' if len(ports) == 1 else 'are'} ACTIVE"
    if verbs:
        node = verbs[0]
        summary = (
            f"{seen}, but {node.path} cannot be opened by this user "
            f"(mode {node.mode:04o}, owner {node.owner}, group {node.group})"
        )
        fix = OPEN_THEM
    elif in_container(machine):
        summary = f"{seen}, but this container has no /dev/infiniband/uverbs*"
        fix = Fix(
            "Start the container with the devices, and with locked memory unlimited (docker: `--device /dev/infiniband "
            "--ulimit memlock=-1`). In Kubernetes, ask for the RDMA device plugin's resource.",
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


def _some(machine: Snapshot, usable: set[str]) -> Problems:
    """Devices whose own file is missing or closed, while others can be opened."""
    devices = {device.name: device for device, _ in usable_ports(machine)}
    closed = [device for device in devices.values() if device.uverbs and f"{NODES}/{device.uverbs}" not in usable]
    if not closed:
        return
    there = {node.path for node in verbs_nodes(machine)}
    files = [f"{NODES}/{device.uverbs}" for device in closed]
    names = listed([device.name for device in closed], 4)
    if set(files) & there:
        fault = "may not be opened by this user" if set(files) <= there else "are missing or may not be opened"
        fix = OPEN_THEM
    elif in_container(machine):
        fault = f"{'is' if len(files) == 1 else 'are'} not in this container"
        fix = Fix(
            "Start the container with all devices (docker: `--device /dev/infiniband --ulimit memlock=-1`). In "
            "Kubernetes, ask for as many of the RDMA device plugin's resource as the node has.",
        )
    else:
        fault = f"{'is' if len(files) == 1 else 'are'} not there"
        fix = Fix("See why the kernel made no file for them.", commands=(command("ls -l /dev/infiniband"),))
    yield Problem(
        severity="warning",
        summary=f"{len(closed)} of {counted(len(devices), 'RDMA device')} cannot be opened: {listed(files, 4)} of "
        f"{names} {fault}",
        meaning="NCCL passes these devices over without a warning and sends all data through the others.",
        evidence=(machine.network.rdma_nodes, machine.network.rdma_devices),
        fix=fix,
    )
