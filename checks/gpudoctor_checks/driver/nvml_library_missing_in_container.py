"""A container on a GPU machine was not given the NVIDIA driver's libraries.

Why it matters: the driver's libraries must come from the host, at start, through the NVIDIA runtime. Without them the
container sees no GPU, and installing a driver inside does not help.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import gpu_nodes, gpus_on_pci, in_container
from gpudoctor.knowledge.wording import counted

START = {
    "docker": Fix(
        "Start the container with the GPUs (`docker run --gpus all`); the host needs nvidia-container-toolkit. The "
        "line, on the host, shows whether that works.",
        commands=(command("docker run --rm --gpus all ubuntu nvidia-smi"),),
    ),
    "podman": Fix.of(
        "Start the container with the GPUs through CDI (`podman run --device nvidia.com/gpu=all`); the lines, on the "
        "host, describe them and show whether that works.",
        command("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),
        command("podman run --rm --device nvidia.com/gpu=all docker.io/library/ubuntu nvidia-smi"),
    ),
    "kubernetes": Fix(
        "Ask for GPUs in the pod's spec (resources: limits: nvidia.com/gpu: 1); the node needs NVIDIA's device "
        "plugin and, unless it is the default, runtimeClassName: nvidia.",
        commands=(command("kubectl describe nodes | grep -A 8 Allocatable"),),
    ),
    "singularity": Fix("Start the container with --nv, which stands before the image (`apptainer exec --nv IMAGE`)."),
    "enroot": Fix.of(
        "Start the container with the GPUs made visible.",
        command("export NVIDIA_VISIBLE_DEVICES=all"),
        command("export NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
    ),
}
UTILITY = Fix(
    "NVIDIA_DRIVER_CAPABILITIES leaves the management library out; start the container with utility among them "
    "(docker: `-e NVIDIA_DRIVER_CAPABILITIES=compute,utility`).",
)


@check("nvml-library-missing-in-container", title="The container has the NVIDIA driver's libraries")
def nvml_library_missing_in_container(machine: Snapshot) -> Problems:
    code = machine.nvidia.init_code
    if code.value != nvml_errors.LIBRARY_NOT_FOUND or not in_container(machine):
        return
    nodes = gpu_nodes(machine)
    if not nodes and not gpus_on_pci(machine):
        return
    kind = machine.host.container
    wanted = machine.environment.value.get("NVIDIA_DRIVER_CAPABILITIES", "")
    left_out = bool(nodes) and wanted != "" and not {"utility", "all"} & set(wanted.split(","))
    seen = (
        f"{nodes[0].path} is there" if nodes else f"{counted(len(gpus_on_pci(machine)), 'NVIDIA GPU')} on the PCI bus"
    )
    yield Problem(
        # With the devices but without the library the container was meant to have GPUs; else perhaps not.
        severity="error" if nodes else "warning",
        summary=f"{seen}, but this container ({kind.value}) has no libnvidia-ml.so.1",
        meaning="torch.cuda.is_available() is False in this container.",
        evidence=(code, kind, machine.accelerators.device_nodes if nodes else machine.accelerators.pci),
        fix=UTILITY if left_out else START.get(kind.value, START["docker"]),
    )
