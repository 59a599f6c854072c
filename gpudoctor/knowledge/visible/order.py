"""In which order CUDA enumerates the GPUs of a machine: its ordinals are not nvidia-smi's indices.

CUDA Programming Guide, CUDA_DEVICE_ORDER: FASTEST_FIRST, the default, orders by "a simple heuristic" that nobody
has published; PCI_BUS_ID is ascending PCI id, which is nvidia-smi's order. nvml.h says that an NVML index "may not
correlate" with the ordinal. So the driver's own enumeration is used where it is known, and the rest is marked.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.snapshot import CudaAnswer, CudaDevice, Gpu, MigDevice

FASTEST_FIRST = "FASTEST_FIRST"
PCI_BUS_ID = "PCI_BUS_ID"
ORDERS = (FASTEST_FIRST, PCI_BUS_ID)
MIG_DOUBT = "how CUDA numbers GPUs beside MIG devices is not documented"


class Instance(NamedTuple):
    """A MIG device. The ids are None where NVML did not give them."""

    uuid: str
    name: str
    gpu_instance: int | None
    compute_instance: int | None


class Slot(NamedTuple):
    """A GPU that CUDA can enumerate. `nvml` is None for one that only libcuda names."""

    nvml: int | None
    uuid: str
    pci: str
    name: str
    mig_mode: bool = False
    instances: tuple[Instance, ...] = ()


class Enumeration(NamedTuple):
    """The GPUs in CUDA's order, as an integer in CUDA_VISIBLE_DEVICES counts them."""

    slots: tuple[Slot, ...]
    order: str
    """FASTEST_FIRST or PCI_BUS_ID: the rule in force."""
    doubt: str = ""
    """Why the order is a guess; empty when it is certain."""
    invalid_order: str | None = None
    """The value of CUDA_DEVICE_ORDER when CUDA knows no such order."""

    @property
    def is_mixed(self) -> bool:
        """GPUs of several models, between which FASTEST_FIRST may reorder."""
        return len({slot.name for slot in self.slots}) > 1


def enumerate_gpus(gpus: Sequence[Gpu], order: str | None, known: CudaAnswer | None) -> Enumeration:
    """The GPUs that CUDA can reach, in its order.

    `order` is the value of CUDA_DEVICE_ORDER, None when unset. `known` is libcuda's own answer without
    CUDA_VISIBLE_DEVICES under that same order, None when it was not asked.
    """
    order = order or None  # set but empty: nothing was chosen
    invalid = order if order not in (None, *ORDERS) else None
    rule = order if order in ORDERS else FASTEST_FIRST
    doubts = [] if invalid is None else ["what CUDA does with this CUDA_DEVICE_ORDER is not documented"]
    lost = [gpu for gpu in gpus if gpu.pci_bus_id.missing_kind == "lost"]
    if lost:
        doubts.append("whether CUDA counts a GPU that is lost is not documented")
    by_pci = sorted((gpu for gpu in gpus if gpu not in lost), key=_pci_key)
    if known is not None and known.error == 0 and not _hides_some(by_pci, known.devices):
        has_mig = any(gpu.mig_mode.value_or(False) for gpu in by_pci)
        return Enumeration(_as_known(by_pci, known.devices), rule, MIG_DOUBT if has_mig else "", invalid)
    empty = [gpu for gpu in by_pci if _is_empty_mig(gpu)]
    if empty:
        doubts.append("whether CUDA counts a GPU in MIG mode without instances is not documented")
    reachable = [gpu for gpu in by_pci if gpu not in empty]
    if any(gpu.mig_mode.value_or(False) for gpu in reachable):
        doubts.append(MIG_DOUBT)
    if rule == FASTEST_FIRST and len({gpu.name.value_or("") for gpu in reachable}) > 1:
        doubts.append("the models differ, and CUDA's FASTEST_FIRST heuristic is not published")
        reachable.sort(key=_speed_guess)
    return Enumeration(tuple(_slot(gpu) for gpu in reachable), rule, "; ".join(doubts), invalid)


def _is_empty_mig(gpu: Gpu) -> bool:
    return gpu.mig_mode.value_or(False) and len(gpu.mig_devices.value_or(())) == 0


def _pci_key(gpu: Gpu) -> tuple[str, int]:
    # Ids are lower case with an 8-digit domain, so text sorts as numbers do. One that is not read keeps its place
    # behind the others: only a pasted file lacks it, and then it lacks all of them.
    return (gpu.pci_bus_id.value_or("~"), gpu.index)


def _speed_guess(gpu: Gpu) -> tuple[int, int, int]:
    """Newest architecture first, then most memory: agrees with the two machines on record.

    GTX 745 + GTX 1080 Ti (pytorch#86539), and DGX Station A100 with its display GPU (dask-cuda, troubleshooting).
    The sort is stable, so equal cards stay in PCI order.
    """
    major, minor = gpu.compute_capability.value_or((0, 0))
    return (-major, -minor, -gpu.memory_total_bytes.value_or(0))


def _hides_some(gpus: Sequence[Gpu], devices: Sequence[CudaDevice]) -> bool:
    """Whether MIG keeps GPUs out of this list that can be selected by themselves all the same.

    A driver before R570 that enumerates a MIG device enumerates nothing beside it (MIG User Guide), so its list says
    nothing of how the numbers count.
    """
    if not any(gpu.mig_mode.value_or(False) for gpu in gpus):
        return False
    owners = [owner(device, gpus) for device in devices]
    return any(gpu not in owners and not _is_empty_mig(gpu) for gpu in gpus)


def _as_known(gpus: Sequence[Gpu], devices: Sequence[CudaDevice]) -> tuple[Slot, ...]:
    """The GPUs in the driver's order. What the driver does not name is out of CUDA's reach."""
    seen: list[Gpu] = []
    slots: list[Slot] = []
    for device in devices:
        gpu = owner(device, gpus)
        if gpu is None:
            slots.append(Slot(None, device.uuid, device.pci_bus_id, device.name))
        elif gpu not in seen:  # a second MIG device of the same GPU adds no slot
            seen.append(gpu)
            slots.append(_slot(gpu))
    return tuple(slots)


def owner(device: CudaDevice, gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU that a device of libcuda's is, or is a part of: by UUID, by MIG UUID, else by PCI id."""
    for gpu in gpus:
        uuids = {gpu.uuid.value_or(""), *(mig.uuid.value_or("") for mig in gpu.mig_devices.value_or(()))}
        if device.uuid and device.uuid in uuids:
            return gpu
    for gpu in gpus:
        if device.pci_bus_id and device.pci_bus_id == gpu.pci_bus_id.value_or(""):
            return gpu
    return None


def _slot(gpu: Gpu) -> Slot:
    return Slot(
        nvml=gpu.index,
        uuid=gpu.uuid.value_or(""),
        pci=gpu.pci_bus_id.value_or(""),
        name=gpu.name.value_or(""),
        mig_mode=gpu.mig_mode.value_or(False),
        instances=tuple(_instance(gpu, mig) for mig in gpu.mig_devices.value_or(())),
    )


def _instance(gpu: Gpu, mig: MigDevice) -> Instance:
    return Instance(
        uuid=mig.uuid.value_or(""),
        name=f"{gpu.name.value_or('')} {mig.name.value_or('MIG')}".strip(),
        gpu_instance=mig.gpu_instance.value_or(None),
        compute_instance=mig.compute_instance.value_or(None),
    )
