"""GPUs that are missing or not ready, in the words of nvidia-smi, CUDA, torch and Fabric Manager."""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gpu-handle-lost",
        pattern=(
            r"Unable to determine the device handle for (?:gpu|GPU) ?(?P<gpu>[\w:.]{1,24}?)(?:: "
            r"(?P<error>[^\n]{1,80}))?$",
            r"Unable to determine the device handle for",
            r"GPU is lost\.\s{1,2}Reboot|\bnvml: GPU is lost\b",
        ),
        cause="xid-gpu-lost",
        variant="reboot",
        seen="nvidia-smi no longer reaches a GPU",
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
        pattern=r"(?:nvidia-fabricmanager\.service: (?:Failed with|Main process exited|Control process exited)|request "
        r"to query NVSwitch device information from NVSwitch driver failed|fabric manager NVIDIA GPU driver interface "
        r"version \S{1,20} don't match)",
        unless="NV_WARN_NOTHING_TO_DO",
        cause="fabric-manager",
        seen="Fabric Manager failed on this node",
        source="NVIDIA Fabric Manager",
        sample=(
            "Aug 19 11:40:02 gpu-a03 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.",
            "fabric manager NVIDIA GPU driver interface version 570.133.20 don't match with driver version 570.86.15.",
        ),
        counter="systemd[1]: nvidia-fabricmanager.service: Deactivated successfully.",
    ),
    Symptom(
        "fabric-manager-without-switches",
        needle="NV_WARN_NOTHING_TO_DO",
        cause="fabric-manager",
        variant="no-switch",
        seen="Fabric Manager finds no NVSwitch on this node",
        source="NVIDIA Fabric Manager",
        sample="request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to "
        "do [NV_WARN_NOTHING_TO_DO]",
        counter="request to query NVSwitch device information from NVSwitch driver failed with error:[NV_ERR_GENERIC]",
    ),
    Symptom(
        "no-gpu-visible",
        needle=(
            "no CUDA-capable device is detected",
            "No CUDA GPUs are available",
            "No HIP GPUs are available",
            "Found no NVIDIA driver on your system",
        ),
        cause="no-gpu-visible",
        confidence=LIKELY,
        seen="a rank sees no GPU at all",
        source="CUDA's error texts (100); torch cuda/__init__.py",
        sample=(
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: CUDA error: no CUDA-capable device is detected",
            "RuntimeError: No HIP GPUs are available",
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
        variant="unknown",
        confidence=POSSIBLE,
        seen="CUDA does not start, and does not say why",
        source="CUDA's error texts (999)",
        sample="RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing "
        "env variable CUDA_VISIBLE_DEVICES after program start.",
        counter="CUDA error: out of memory",
    ),
    Symptom(
        "driver-combination-unsupported",
        needle=("unsupported display driver / cuda driver combination", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        cause="driver-mismatch",
        variant="combination",
        seen="the driver in the kernel and libcuda do not belong together (CUDA error 803)",
        source="CUDA's error texts (803), as in libcudart inside NCCL",
        sample=(
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
            "functions before calling NumCudaDevices() that might have already set an error? Error 803: system has "
            "unsupported display driver / cuda driver combination",
        ),
        counter="display driver 570.86.15",
    ),
    Symptom(
        "forward-compatibility-refused",
        needle=("forward compatibility was attempted on non supported HW", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        cause="driver-mismatch",
        variant="forward",
        seen="the image brings a libcuda that is newer than the driver, which this GPU does not allow (CUDA error 804)",
        source="CUDA's error texts (804), as in libcudart inside NCCL",
        sample="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
        "attempted on non supported HW",
        counter="forward compatibility is on",
    ),
    Symptom(
        "mps-not-working",
        needle=("MPS client failed to connect to the MPS control daemon", "MPS server is not ready to accept new MPS"),
        cause="no-gpu-visible",
        variant="mps",
        seen="CUDA goes through MPS, and its server does not answer (CUDA errors 805 and 807)",
        source="CUDA's error texts (805, 807), as in libcudart inside NCCL",
        sample="RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
        counter="MPS control daemon started",
    ),
    Symptom(
        "gpu-busy-exclusive",
        needle=(
            "all CUDA-capable devices are busy or unavailable",
            "CUDA-capable device(s) is/are busy or unavailable",
        ),
        cause="duplicate-gpu",
        variant="busy",
        confidence=LIKELY,
        seen="the GPU of a rank is taken: it allows one process only, or another process or a fault holds it",
        source="CUDA's error texts (46)",
        sample="RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
        counter="CUDA-capable devices: 8",
    ),
)
