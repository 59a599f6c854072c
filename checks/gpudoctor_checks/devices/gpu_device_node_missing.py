"""A GPU's device file is missing, or this user may not open it.

Why it matters: nvidia-smi lists the GPU through /dev/nvidiactl, but CUDA opens /dev/nvidiaN of each GPU it enumerates.
A container created with a part of the device files, a udev rule or a changed mode hides the GPU from every program.
"""

from collections.abc import Iterator
from shlex import quote

from gpudoctor.check import Fix, Problem, gpu_check
from gpudoctor.knowledge.gpu_labels import label
from gpudoctor.knowledge.nvidia_hardware import in_wsl
from gpudoctor.snapshot import Gpu, NotApplicable, Snapshot, absent, read


@gpu_check("gpu-device-node-missing", title="Every GPU has a device file that this user may open")
def gpu_device_node_missing(gpu: Gpu, machine: Snapshot) -> Iterator[Problem]:
    nodes = machine.accelerators.device_nodes
    if in_wsl(machine):
        raise NotApplicable(absent(nodes.source, "under WSL all GPUs are reached through /dev/dxg"))
    path = f"/dev/nvidia{gpu.minor_number.value}"
    node = next((node for node in nodes.value if node.path == path), None)
    inside = machine.host.container.value_or("none") != "none"
    if node is None:
        seen = f"{path} of {label(gpu)} does not exist"
        if inside:
            fix = Fix("Create the container again with this GPU.", commands=("docker run --gpus all ...",))
        else:
            fix = Fix(
                "Have the driver's helper create it.", commands=(f"sudo nvidia-modprobe -c {gpu.minor_number.value}",)
            )
    elif not (node.readable and node.writable):
        seen = f"{path} of {label(gpu)} may not be opened: mode {node.mode:04o}, {node.owner}:{node.group}"
        if inside:
            fix = Fix("Run the container with the device, and as a user that may open it.", commands=(f"ls -l {path}",))
        elif node.owner == "root" and node.mode & 0o060 == 0o060 and node.group not in ("root", ""):
            fix = Fix("Join the group, and log in again.", commands=(f'sudo usermod -aG {quote(node.group)} "$USER"',))
        else:
            fix = Fix("Restore the driver's default mode.", commands=(f"sudo chmod 666 {path}",))
    else:
        return
    yield Problem(
        severity="error",
        summary=seen,
        meaning="nvidia-smi can still list the GPU, but CUDA does not enumerate it, or fails with error 100 or 304.",
        fix=fix,
        evidence=(read(nodes.source, seen), gpu.minor_number),
    )
