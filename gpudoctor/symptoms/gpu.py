"""GPUs that are missing or not ready, in the words of nvidia-smi, CUDA, torch and Fabric Manager."""

from gpudoctor.command import command
from gpudoctor.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gpu-handle-lost",
        needle=("Unable to determine the device handle for", "GPU is lost.  Reboot", "GPU is lost. Reboot"),
        pattern=(
            r"Unable to determine the device handle for (?:gpu|GPU) ?(?P<gpu>[\w:.]{1,24}?)(?:: "
            r"(?P<error>[^\n]{1,80}))?$",
            r"Unable to determine the device handle for",
            r"GPU is lost\.\s{1,2}Reboot",
        ),
        cause="xid-gpu-lost",
        confidence=0.9,
        seen="nvidia-smi no longer reaches a GPU",
        fix="Reboot the node; look in the kernel's log for the Xid, mostly 79.",
        commands=(command("sudo dmesg --ctime | grep -i xid"),),
        source="nvidia-smi, NVML_ERROR_GPU_IS_LOST",
        sample=(
            "Unable to determine the device handle for GPU3: 0000:5D:00.0: Unknown Error",
            "Unable to determine the device handle for gpu 0000:5D:00.0: GPU is lost.  Reboot the system to recover "
            "this GPU",
        ),
        counter="device handle for GPU3 opened",
    ),
    Symptom(
        "fabric-manager-failed",
        needle=(
            "nvidia-fabricmanager.service",
            "NVSwitch device information from NVSwitch driver failed",
            "fabric manager NVIDIA GPU driver interface version",
        ),
        pattern=r"(?:nvidia-fabricmanager\.service: (?:Failed with|Main process exited|Control process "
        r"exited)|request to query NVSwitch "
        r"device information from NVSwitch driver failed|fabric manager NVIDIA GPU driver interface version \S{1,20} "
        r"don't match)",
        cause="fabric-manager",
        confidence=0.85,
        seen="Fabric Manager failed on this node",
        source="NVIDIA Fabric Manager",
        sample=(
            "Aug 19 11:40:02 gpu-a03 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.",
            "fabric manager NVIDIA GPU driver interface version 570.133.20 don't match with driver version 570.86.15.",
        ),
        counter="systemd[1]: nvidia-fabricmanager.service: Deactivated successfully.",
    ),
    Symptom(
        "no-gpu-visible",
        needle=(
            "no CUDA-capable device is detected",
            "No CUDA GPUs are available",
            "Found no NVIDIA driver on your system",
        ),
        cause="rank-died",
        confidence=0.6,
        seen="a rank sees no GPU at all",
        fix="Look at CUDA_VISIBLE_DEVICES of the rank, at the container's GPU options, and at nvidia-smi on that node.",
        commands=(command("gpudoctor check gpu devices driver"),),
        source="CUDA's error texts (100); torch cuda/__init__.py",
        sample=(
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: CUDA error: no CUDA-capable device is detected",
        ),
        counter="GPU available: True (cuda), used: True",
    ),
    Symptom(
        "cuda-unknown-error",
        needle=(
            "CUDA error: unknown error",
            "CUDA unknown error - this may be due to",
            "CUDA driver error: unknown error",
        ),
        cause="xid-gpu-lost",
        confidence=0.45,
        seen="CUDA does not start, and does not say why",
        fix="Look at nvidia-smi and dmesg on that node: a GPU that was lost, a driver that was updated, or devices "
        "that the "
        "container does not have.",
        commands=(command("nvidia-smi"), command("gpudoctor check gpu driver")),
        source="CUDA's error texts (999)",
        sample="RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. "
        "changing env "
        "variable CUDA_VISIBLE_DEVICES after program start.",
        counter="CUDA error: out of memory",
    ),
    Symptom(
        "gpu-busy-exclusive",
        needle="all CUDA-capable devices are busy or unavailable",
        cause="duplicate-gpu",
        confidence=0.6,
        seen="the GPU of a rank is taken: it allows one process only, or another process or a fault holds it",
        fix="Give every rank its own GPU, end leftover processes by PID, or set the compute mode back to Default.",
        commands=(command("nvidia-smi"), command("gpudoctor check gpu")),
        source="CUDA's error texts (46)",
        sample="RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        counter="CUDA-capable devices: 8",
    ),
)
