"""An AMD GPU cannot be used: no amdgpu driver, or /dev/kfd is missing or closed to this user.

Why it matters: ROCm reaches the GPU through the kernel driver amdgpu and the device file /dev/kfd, which only members
of the groups render or video may open. Without them `cuda.is_available()` is False in a ROCm build too.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import is_amd_graphics, is_amd_instinct
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import DRIVER_NOT_TOLD, PciDevice, Reading

KFD = "/dev/kfd"
REFUSAL = "what rocm-smi says instead of its tables"
"""The source of such a file (gpudoctor.read.pasted.rocm_smi)."""
GIVEN_AWAY = ("vfio-pci", "pci-stub", "radeon")  # passed to a VM, or too old for ROCm


@check("amd-gpu-driver-missing", title="AMD GPUs have their driver, and this user may use it")
def amd_gpu_driver_missing(machine: Snapshot) -> Problems:
    if (modules := machine.accelerators.kernel_modules).source == REFUSAL:
        yield _refused(modules)
        return
    pci = machine.accelerators.pci
    gpus = [device for device in pci.value if is_amd_instinct(device) or is_amd_graphics(device)]
    gpus = [device for device in gpus if device.driver not in (*GIVEN_AWAY, DRIVER_NOT_TOLD)]
    if not gpus:
        return
    driverless = [device for device in gpus if device.driver != "amdgpu"]
    if driverless:
        yield _no_driver(machine, driverless, _severity(machine, gpus))
    if len(driverless) < len(gpus):
        yield from _device_file(machine, gpus)


def _refused(modules: Reading[tuple[str, ...]]) -> Problem:
    """Of what rocm-smi says in place of its tables."""
    return Problem(
        severity="error",
        summary="rocm-smi finds no amdgpu driver that is loaded"
        if modules.is_read
        else f"rocm-smi cannot ask the amdgpu driver: {modules.reason}",
        meaning="ROCm sees no GPU.",
        evidence=(modules,),
        fix=Fix(
            "Load the driver; when that fails, the kernel log says why (missing firmware, Secure Boot).",
            commands=(command("sudo modprobe amdgpu"), command("sudo dmesg | grep -i amdgpu | tail -n 20")),
        ),
    )


def _severity(machine: Snapshot, gpus: list[PciDevice]) -> Severity:
    """Graphics without ROCm drive a screen; only with an Instinct or a ROCm build has somebody meant to compute."""
    if any(is_amd_instinct(device) for device in gpus):
        return "error"
    torch = if_present(machine.training.torch_files)
    return "error" if torch and torch.hip else "info"


def _no_driver(machine: Snapshot, devices: list[PciDevice], severity: Severity) -> Problem:
    places = listed((f"{device.bus_id} ({device.driver or 'no driver'})" for device in devices), 3)
    return Problem(
        severity=severity,
        summary=f"AMD GPU at {places} has no amdgpu driver",
        meaning="ROCm does not see it.",
        evidence=(machine.accelerators.pci,),
        fix=Fix(
            "Load the driver; when that fails, the kernel log says why (missing firmware, Secure Boot).",
            commands=(command("sudo modprobe amdgpu"), command("sudo dmesg | grep -i amdgpu | tail -n 20")),
        ),
    )


def _device_file(machine: Snapshot, gpus: list[PciDevice]) -> Problems:
    nodes = machine.accelerators.device_nodes
    kfd = next((node for node in if_present(nodes) or () if node.path == KFD), None)
    in_container = machine.host.container.value_or("none") != "none"
    if kfd is None and nodes.is_read:
        yield Problem(
            severity=_severity(machine, gpus),
            summary=f"{KFD} does not exist, although amdgpu drives a GPU here",
            meaning="ROCm finds no GPU, and training runs on the CPU.",
            evidence=(nodes,),
            fix=Fix("Start the container with `--device=/dev/kfd --device=/dev/dri --group-add video`.")
            if in_container
            else Fix(
                "The kernel's amdgpu lacks compute support (CONFIG_HSA_AMD) or skipped this GPU; its log says which.",
                commands=(command("sudo dmesg | grep -iE 'kfd|amdgpu' | tail -n 20"),),
            ),
        )
    elif kfd is not None and not (kfd.readable and kfd.writable):
        yield Problem(
            severity=_severity(machine, gpus),
            summary=f"{KFD} may not be opened by this user (mode {kfd.mode:04o}, {kfd.owner}:{kfd.group})",
            meaning="ROCm finds no GPU for this user, and training runs on the CPU.",
            evidence=(nodes,),
            fix=Fix(
                "Join the groups and log in again; a container needs the host's group number (`--group-add`).",
                commands=(command("sudo usermod -aG render,video $USER"),),
            ),
        )
