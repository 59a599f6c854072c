"""NVIDIA_VISIBLE_DEVICES tells the container runtime to give this container no GPU.

Why it matters: this variable is read by NVIDIA's container runtime when the container is created, never by CUDA. With
"void", "none" or an empty value no GPU is passed in, and nothing that is set inside the container brings it back.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci, in_container
from gpudoctor.knowledge.visible.entries import shown
from gpudoctor.knowledge.visible.now import variable

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
GIVES_NONE = ("void", "none", "")  # nvidia-container-toolkit: "none" still passes the driver's libraries in


@check("nvidia-visible-devices-void", title="The container runtime passes GPUs into this container")
def nvidia_visible_devices_void(machine: Snapshot) -> Problems:
    value = machine.environment.value.get(VARIABLE)
    if not in_container(machine) or value is None or value.strip() not in GIVES_NONE:
        return
    # Under CDI the runtime sets "void" itself, beside the GPUs that it passes in.
    gpus = machine.nvidia.gpus
    if gpus.value if gpus.missing_kind == "timeout" else gpus.value_or(()):
        return
    if machine.accelerators.pci.is_read and not gpus_on_pci(machine):
        return  # the host has no NVIDIA GPU to give
    kubernetes = machine.host.container.value == "kubernetes"
    yield Problem(
        severity="error",
        summary=f"{VARIABLE} is {shown(value)}: the container was started without a GPU",
        meaning="CUDA finds no driver or no device in this container, whatever CUDA_VISIBLE_DEVICES says.",
        fix=Fix(
            "Ask for GPUs in the pod's resource limits (nvidia.com/gpu) and create it again."
            if kubernetes
            else "Create the container again with GPUs (docker: `--gpus all`); it cannot be changed from inside.",
            commands=(command("kubectl describe nodes | grep nvidia.com/gpu"),) if kubernetes else (),
        ),
        evidence=(variable(machine, VARIABLE), machine.host.container),
    )
