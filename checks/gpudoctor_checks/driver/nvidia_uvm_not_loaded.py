"""CUDA cannot use the unified memory device, /dev/nvidia-uvm.

Why it matters: CUDA needs it on every start. nvidia-smi does not, so it looks fine while cuInit fails with "unknown
error" or "no CUDA-capable device".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import DRIVER_MISSING
from gpudoctor.knowledge.gpus.nvidia_hardware import in_wsl, perhaps_in_container

UVM = "/dev/nvidia-uvm"


@check(
    "nvidia-uvm-not-loaded",
    title="CUDA can use /dev/nvidia-uvm",
    follows=DRIVER_MISSING,
)
def nvidia_uvm_not_loaded(machine: Snapshot) -> Problems:
    if not machine.nvidia.gpus.value or in_wsl(machine):  # WSL2 has /dev/dxg in its place
        return
    nodes = machine.accelerators.device_nodes
    device_nodes = [node for node in nodes.value if node.path == UVM]
    if device_nodes and device_nodes[0].readable and device_nodes[0].writable:
        return
    # The first CUDA program after boot loads the module and makes the file, with the setuid helper nvidia-modprobe. So
    # a
    # missing file is no fault by itself, only when CUDA did not start.
    answer = machine.cuda.visible
    if answer.value.error == 0:
        return
    inside = perhaps_in_container(machine)
    state = (
        f"cannot be opened for reading and writing (mode {device_nodes[0].mode:04o})"
        if device_nodes
        else "does not exist"
    )
    yield Problem(
        severity="error",
        summary=f"{UVM} {state}, and cuInit fails with error {answer.value.error}",
        meaning="No CUDA program starts, while nvidia-smi works.",
        evidence=(nodes, answer),
        fix=Fix(
            "Start the container through the NVIDIA runtime, or hand the device in (docker: `--gpus all "
            f"--device {UVM}`). The host must have it loaded: the line is for the host."
            if inside
            else "Load the module and make its device file; the second line does it at every boot.",
            commands=(command("sudo nvidia-modprobe -u -c=0"),)
            if inside
            else (
                command("sudo nvidia-modprobe -u -c=0"),
                command("echo nvidia-uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf"),
            ),
        ),
    )
