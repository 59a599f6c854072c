"""An Intel data-centre or Arc GPU is here, and the training interpreter's torch was not built for it.

Why it matters: Intel GPUs are the device "xpu" of a torch that comes from an index of its own. The default build does
not see them, and training runs on the CPU. Graphics inside Intel CPUs are not meant.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import is_intel_arc, is_intel_data_center, is_nvidia_gpu
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter
from gpudoctor.knowledge.wording import listed

INDEX = "https://download.pytorch.org/whl/xpu"  # docs.pytorch.org, "Getting started on Intel GPU"


@check("intel-gpu-without-xpu-torch", title="torch is built for the Intel GPUs of this machine")
def intel_gpu_without_xpu_torch(machine: Snapshot) -> Problems:
    pci, files = machine.accelerators.pci, machine.training.torch_files
    data_center = [device for device in pci.value if is_intel_data_center(device)]
    arc = [device for device in pci.value if is_intel_arc(device)]
    if not data_center and (not arc or any(is_nvidia_gpu(device) for device in pci.value)):
        return
    torch = if_present(files)
    if torch is not None and torch.xpu:
        return
    devices = data_center or arc
    state = f"torch {torch.version} is not" if torch else "no torch is installed that is"
    yield Problem(
        severity="error" if data_center else "info",
        summary=f"Intel {'Data Center GPU' if data_center else 'Arc'} at "
        f"{listed((device.bus_id for device in devices), 3)}, and {state} built for XPU",
        meaning="torch.xpu.is_available() is False, and training runs on the CPU.",
        evidence=(pci, *((files,) if torch else ())),
        fix=Fix.of(
            "Install the XPU build into the training interpreter; it needs Intel's compute runtime on the machine.",
            command(
                "{:python} -m pip install --force-reinstall torch --index-url {:name}",
                interpreter(machine),
                INDEX,
            ),
        ),
    )
