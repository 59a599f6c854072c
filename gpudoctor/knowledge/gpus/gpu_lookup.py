"""Which GPU a PCI address of the kernel log or of sysfs means."""

from collections.abc import Iterable

from gpudoctor.knowledge.gpus.gpu_labels import labels
from gpudoctor.knowledge.pci_address import normalised
from gpudoctor.knowledge.wording import listed
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


def gpus_at(gpus: Iterable[Gpu], addresses: Iterable[str]) -> list[Gpu]:
    """The GPUs at these addresses, once each, in the order of their indices; addresses of no GPU are passed over."""
    every = tuple(gpus)
    by_index = {gpu.index: gpu for address in addresses if (gpu := gpu_at(every, address)) is not None}
    return [by_index[index] for index in sorted(by_index)]


def place(gpus: Iterable[Gpu], addresses: Iterable[str]) -> str:
    """ "GPU 3 (0000:5d:00.0)", "GPUs 0-2", or "the GPU at 0000:5d:00.0" for one that NVML does not list."""
    places = list(dict.fromkeys(addresses))
    known = gpus_at(gpus, places)
    if known:
        return labels(known)
    return f"the GPU{'' if len(places) == 1 else 's'} at {listed(places, 2)}"


def selector(gpus: Iterable[Gpu], address: str) -> str:
    """What nvidia-smi -i takes for the GPU at an address: its index, or the address when NVML does not list it."""
    gpu = gpu_at(gpus, address)
    if gpu is not None:
        return str(gpu.index)
    try:
        return normalised(address).upper()
    except ValueError:
        return address
