"""Which GPU a PCI address of the kernel log or of sysfs means."""

from collections.abc import Iterable

from gpudoctor.knowledge.pci_address import normalised
from gpudoctor.snapshot import Gpu


def same_address(one: str, other: str) -> bool:
    """Whether two PCI addresses, in whatever form, are the same; False for what is no address."""
    try:
        return normalised(one) == normalised(other)
    except ValueError:
        return False


def gpu_at(gpus: Iterable[Gpu], address: str) -> Gpu | None:
    """The GPU at a PCI address, or None."""
    return next((gpu for gpu in gpus if same_address(gpu.pci_bus_id.value_or(""), address)), None)


def indices_at(gpus: Iterable[Gpu], addresses: Iterable[str]) -> tuple[int, ...]:
    """NVML indices of the GPUs at these addresses, sorted; addresses of no GPU are passed over."""
    every = tuple(gpus)
    found = (gpu_at(every, address) for address in addresses)
    return tuple(sorted({gpu.index for gpu in found if gpu is not None}))


def shown(address: str) -> str:
    """The address as nvidia-smi takes it with -i: "00000000:5D:00.0"; unchanged when it is none."""
    try:
        return normalised(address).upper()
    except ValueError:
        return address
