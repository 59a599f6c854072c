"""What the error numbers of cuInit mean for the machine, and what to do.

Sources: CUresult of cuda.h (CUDA 13) for numbers and names; causes from NVIDIA's CUDA compatibility guide (803, 804),
fabric manager guide (802), MPS guide (805-809), and the issues named in the entries.
"""

from typing import NamedTuple

from gpudoctor.command import Command, command

NO_DEVICE = 100
HIDDEN = (NO_DEVICE, 101)
"""cuInit's answers where CUDA_VISIBLE_DEVICES leaves nothing: the second where it names a GPU twice (driver 580.159;
525.60 gives the first there too)."""
SYSTEM_NOT_READY = 802
SYSTEM_DRIVER_MISMATCH = 803
COMPAT_NOT_SUPPORTED = 804
STUB_LIBRARY = 34


class CudaError(NamedTuple):
    """A CUresult's name in cuda.h, its cause, and what to do: a sentence and lines that work on any machine."""

    code: int
    name: str
    cause: str
    fix: str
    commands: tuple[Command, ...] = ()


_KERNEL_LOG = command("sudo dmesg -T | grep -iE 'nvrm|xid'")
_MPS_STATUS = command("echo get_server_list | nvidia-cuda-mps-control")
_MPS_FIX = "Restart the MPS daemon, or unset CUDA_MPS_PIPE_DIRECTORY to do without it."

ERRORS = {
    error.code: error
    for error in (
        CudaError(
            2,
            "CUDA_ERROR_OUT_OF_MEMORY",
            "there was not enough memory to initialise: a GPU is full, or the host or its cgroup is",
            "End what holds the memory, or raise the container's memory limit.",
            (command("nvidia-smi"), command("free -g")),
        ),
        CudaError(
            3,
            "CUDA_ERROR_NOT_INITIALIZED",
            # seen on B200 in virtual machines: NVML works, the GPU was never initialised in the guest (facts: issue
            # text)
            "the GPUs were not initialised: in a virtual machine the host's fabric set-up is missing, "
            "elsewhere the driver is shutting down",
            "In a virtual machine, ask the platform's operator about the NVLink fabric partition; elsewhere, reboot.",
            (_KERNEL_LOG,),
        ),
        CudaError(
            STUB_LIBRARY,
            "CUDA_ERROR_STUB_LIBRARY",
            "the toolkit's stub libcuda was loaded, which is for linking only",
            "Take the stubs folder out of LD_LIBRARY_PATH.",
        ),
        CudaError(
            46,
            "CUDA_ERROR_DEVICE_UNAVAILABLE",
            "the GPU is busy: compute mode exclusive or prohibited, or another process is resetting it",
            "Set the compute mode to default, or end the process that owns the GPU.",
            (command("nvidia-smi --query-gpu=index,compute_mode --format=csv"),),
        ),
        CudaError(
            NO_DEVICE,
            "CUDA_ERROR_NO_DEVICE",
            "CUDA finds no GPU: device files missing or forbidden, or GPUs that this driver no longer supports",
            "Look at the device files and at what the kernel driver says of the GPUs.",
            (command("ls -l /dev/nvidia*"), _KERNEL_LOG),
        ),
        CudaError(
            101,
            "CUDA_ERROR_INVALID_DEVICE",
            "a device was asked for that CUDA does not have: a wrong CUDA_VISIBLE_DEVICES, or a broken MIG set-up",
            "Look at the MIG devices and at CUDA_VISIBLE_DEVICES.",
            (command("nvidia-smi -L"), command('echo "$CUDA_VISIBLE_DEVICES"')),
        ),
        CudaError(
            214,
            "CUDA_ERROR_ECC_UNCORRECTABLE",
            "a GPU met an uncorrectable memory error",
            "Reset the GPU that counts uncorrected errors.",
            (command("nvidia-smi -q -d ECC,ROW_REMAPPER"),),
        ),
        CudaError(
            304,
            "CUDA_ERROR_OPERATING_SYSTEM",
            "a system call failed: often /dev/nvidia-uvm cannot be opened, or the open-files or memory limit is "
            "reached",
            "Look at the device files and the limits of this shell.",
            (command("ls -l /dev/nvidia*"), command("ulimit -a")),
        ),
        CudaError(
            SYSTEM_NOT_READY,
            "CUDA_ERROR_SYSTEM_NOT_READY",
            "the NVSwitch fabric is not up: the fabric manager does not run, or is not of the driver's version",
            "Start the fabric manager of exactly the driver's version; on a machine without NVSwitch, reboot.",
            (
                command("sudo systemctl enable --now nvidia-fabricmanager"),
                command("sudo journalctl -u nvidia-fabricmanager -n 50 --no-pager"),
            ),
        ),
        CudaError(
            SYSTEM_DRIVER_MISMATCH,
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "libcuda and the loaded kernel module are of different driver versions",
            "Reboot after a driver upgrade; in a container, remove cuda-compat from the library path or recreate it.",
            (command("cat /proc/driver/nvidia/version"), command("ldconfig -p | grep libcuda.so")),
        ),
        CudaError(
            COMPAT_NOT_SUPPORTED,
            "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
            "the forward-compatibility libcuda (cuda-compat) was loaded, and this GPU is not one that supports it",
            "Take cuda-compat out of the library path; install a newer driver, or a torch build for an older CUDA.",
            (command("ldconfig -p | grep libcuda.so"), command('echo "$LD_LIBRARY_PATH"')),
        ),
        CudaError(
            805,
            "CUDA_ERROR_MPS_CONNECTION_FAILED",
            "the MPS daemon named by CUDA_MPS_PIPE_DIRECTORY cannot be reached",
            _MPS_FIX,
            (_MPS_STATUS,),
        ),
        CudaError(806, "CUDA_ERROR_MPS_RPC_FAILURE", "the MPS daemon did not answer", _MPS_FIX, (_MPS_STATUS,)),
        CudaError(807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "the MPS server is recovering", _MPS_FIX, (_MPS_STATUS,)),
        CudaError(
            808,
            "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
            "the MPS server has no room for another client",
            "End some of its clients, or start fewer processes per GPU.",
            (_MPS_STATUS,),
        ),
        CudaError(
            809,
            "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
            "the MPS server has no hardware connections left",
            "End some of its clients, or start fewer processes per GPU.",
            (_MPS_STATUS,),
        ),
        CudaError(
            999,
            "CUDA_ERROR_UNKNOWN",
            "the driver met something it has no number for: often nvidia-uvm lost its GPUs (suspend, a GPU off the "
            "bus)",
            "Read the kernel log; reload nvidia_uvm when nothing uses the GPUs, or reboot.",
            (_KERNEL_LOG, command("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm")),
        ),
    )
}


def explain(code: int, name: str = "") -> CudaError:
    """What is known of a CUresult; numbers that are not in the table keep the driver's own name for them."""
    return ERRORS.get(code) or CudaError(
        code,
        name or f"CUDA error {code}",
        "cuInit does not usually give this error",
        "Read the kernel log, and reboot when it names no cause.",
        (_KERNEL_LOG,),
    )
