"""How messages name GPUs, and lines to paste that name them."""

from collections.abc import Iterable

from gpudoctor.command import Command, command
from gpudoctor.knowledge import pci_address, wording
from gpudoctor.snapshot import Gpu


def label(gpu: Gpu) -> str:
    """ "GPU 3 (0000:5d:00.0)": nvidia-smi's index, and the address in sysfs' form where it is known."""
    address = sysfs_address(gpu)
    return f"GPU {gpu.index} ({address})" if address else f"GPU {gpu.index}"


def sysfs_address(gpu: Gpu) -> str:
    """ "0000:5d:00.0"; empty when it is not known."""
    try:
        return pci_address.in_sysfs(gpu.pci_bus_id.value_or(""))
    except ValueError:
        return ""


def labels(gpus: Iterable[Gpu]) -> str:
    """ "GPUs 0-2,5", or one GPU with its address."""
    several = list(gpus)
    return label(several[0]) if len(several) == 1 else numbers(gpu.index for gpu in several)


def numbers(indices: Iterable[int]) -> str:
    """ "GPU 3", "GPUs 0-2,5"."""
    return wording.gpus(sorted(set(indices)))


def comma_separated(gpus: Iterable[Gpu]) -> str:
    """ "0,1,5", as nvidia-smi's -i takes it."""
    return ",".join(str(gpu.index) for gpu in gpus)


def reset(gpu: Gpu) -> Command:
    """The command that resets a GPU. It refuses while a process uses the GPU, so it is safe to paste."""
    return command("sudo nvidia-smi --gpu-reset -i {:number}", gpu.index)
