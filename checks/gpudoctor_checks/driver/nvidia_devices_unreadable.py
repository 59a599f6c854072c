"""This user may not open the NVIDIA device files.

Why it matters: CUDA and NVML open /dev/nvidiactl and /dev/nvidiaN for reading and writing. Without the right to,
programs see no GPU and say so in many ways, none of which mentions permissions.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import CONTROL, EVERYBODY, gpu_nodes, perhaps_in_container, withheld_nodes
from gpudoctor.snapshot import DeviceNode, is_left_out, require

GROUP_MAY_READ_AND_WRITE = 0o060


@check("nvidia-devices-unreadable", title="The NVIDIA device files can be opened")
def nvidia_devices_unreadable(machine: Snapshot) -> Problems:
    code, nodes = machine.nvidia.init_code, machine.accelerators.device_nodes
    nodes_of_gpus = () if is_left_out(nodes) and code.is_read else gpu_nodes(machine)
    forbidden = [node for node in nodes_of_gpus if not (node.readable and node.writable)]
    if any(node.path != CONTROL and node not in forbidden for node in nodes_of_gpus):
        given_to_others = withheld_nodes(machine)  # this job has GPUs of its own
        forbidden = [node for node in forbidden if node not in given_to_others]
    refused = code.value_or(None) == nvml_errors.NO_PERMISSION
    if not forbidden and not refused:
        require(code)  # a cgroup can forbid what the file's mode allows, and only NVML's answer shows that
        return
    # One of several GPUs can be kept from a user on purpose; without the control device nothing works.
    everything = refused or any(node.path == CONTROL for node in forbidden)
    yield Problem(
        severity="error" if everything else "warning",
        summary=(_listed(forbidden) if forbidden else "NVML may not open the NVIDIA devices")
        + (f" (NVML error {code.value}, no permission)" if refused else ""),
        meaning="CUDA programs of this user find no GPU."
        if everything
        else "CUDA programs of this user miss these GPUs.",
        evidence=(*((code,) if refused else ()), *((nodes,) if nodes.is_read else ())),
        fix=_fix(forbidden, inside=perhaps_in_container(machine) is not False),
    )


def _listed(forbidden: list[DeviceNode]) -> str:
    first = forbidden[0]
    named = ", ".join(node.path for node in forbidden[:3]) + (", ..." if len(forbidden) > 3 else "")
    return (
        f"{named} cannot be opened for reading and writing by this user "
        f"(mode {first.mode:04o}, owner {first.owner}, group {first.group})"
    )


def _fix(forbidden: list[DeviceNode], *, inside: bool) -> Fix:
    if inside or not forbidden or forbidden[0].mode & EVERYBODY == EVERYBODY:
        return Fix(
            "A container or cgroup is not given these devices. Start the container with them (docker: `--gpus all`); "
            "in a job, ask for GPUs.",
            commands=(command("ls -l /dev/nvidia*"),),
        )
    node = forbidden[0]
    if node.group != "root" and node.mode & GROUP_MAY_READ_AND_WRITE == GROUP_MAY_READ_AND_WRITE:
        return Fix(
            f"Join group {node.group}, then log in again.",
            commands=(command('sudo usermod -aG {:user} "$USER"', node.group), command("ls -l /dev/nvidia*")),
        )
    paths = [one.path for one in forbidden]
    return Fix(
        "Give this user the files, until the next restart, and look for NVreg_DeviceFileMode in the module's options, "
        "which sets their mode at boot.",
        (
            command("sudo setfacl -m u:$(id -un):rw {:paths}", paths),
            command("grep -rs NVreg_DeviceFile /etc/modprobe.d"),
        ),
        otherwise=(
            Fix("Give them to every user: the driver's default mode.", (command("sudo chmod 0666 {:paths}", paths),)),
        ),
    )
