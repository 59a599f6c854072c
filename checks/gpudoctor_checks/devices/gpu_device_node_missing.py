"""A GPU has no device file.

Why it matters: nvidia-smi lists the GPU through /dev/nvidiactl, but CUDA opens /dev/nvidiaN of each GPU it enumerates.
A container created with a part of the device files, or a driver whose helper did not run at boot, keeps the GPU from
every program.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.gpus.nvidia_hardware import in_wsl
from gpudoctor.snapshot import NotApplicable, absent, read


@gpu_check("gpu-device-node-missing", title="Every GPU has a device file", short="no device file")
def gpu_device_node_missing(gpu: Gpu, machine: Snapshot) -> Problems:
    nodes = machine.accelerators.device_nodes
    if in_wsl(machine):
        raise NotApplicable(absent(nodes.source, "under WSL all GPUs are reached through /dev/dxg"))
    minor = gpu.minor_number.value
    path = f"/dev/nvidia{minor}"
    if any(node.path == path for node in nodes.value):
        return  # whether this user may open it is nvidia-devices-unreadable's question
    if machine.host.container.value_or("none") != "none":
        fix = Fix("Create the container again with this GPU (docker: `--gpus all`).")
    else:
        fix = Fix(
            "Have the driver's helper create it.", commands=(command("sudo nvidia-modprobe -c {:number}", minor),)
        )
    yield Problem(
        severity="error",
        summary=f"{path} of {label(gpu)} does not exist",
        meaning="nvidia-smi can still list the GPU, but no CUDA program can use it.",
        fix=fix,
        evidence=(read(nodes.source, f"no {path}"), gpu.minor_number),
    )
