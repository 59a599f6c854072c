"""Whether the CUDA driver itself enumerates the devices that were predicted."""

from gpudoctor.knowledge.gpus.cuda_errors import HIDDEN
from gpudoctor.knowledge.visible.selection import Selection, VisibleDevice
from gpudoctor.snapshot import CudaAnswer, CudaDevice

CUDA_SUCCESS = 0


def enumerated(answer: CudaAnswer) -> tuple[CudaDevice, ...] | None:
    """The devices that libcuda gave; None when an error kept it from looking, which says nothing of the variable."""
    if answer.error == CUDA_SUCCESS:
        return answer.devices
    return () if answer.error in HIDDEN else None


def agrees(selection: Selection, answer: CudaAnswer) -> bool | None:
    """Whether libcuda's answer for the same value is the predicted one; None when it gave no list."""
    devices = enumerated(answer)
    if devices is None:
        return None
    return len(devices) == len(selection.devices) and all(
        _is_same(predicted, device) for predicted, device in zip(selection.devices, devices, strict=True)
    )


def _is_same(predicted: VisibleDevice, device: CudaDevice) -> bool:
    if predicted.identity and device.uuid:
        # Drivers before R470 name MIG devices by parent and ids, and libcuda then gives the parent's UUID alone.
        old_mig = predicted.mig is not None and predicted.mig.startswith("MIG-GPU-")
        return device.uuid in ((predicted.identity, predicted.uuid) if old_mig else (predicted.identity,))
    return predicted.pci == device.pci_bus_id


def error_of(answer: CudaAnswer) -> str:
    """The driver's error, as a reason why it gave no list."""
    return f"cuInit failed with {answer.error_name or 'error'} ({answer.error})"
