"""GPUs of one model sit in PCIe slots of different speed.

Why it matters: the GPU behind the slower slot gets its batches and, without NVLink, its gradients more slowly, and
every other GPU of a data-parallel job waits for it.
"""

from math import log2

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import labels, sysfs_address
from gpudoctor.knowledge.gpus.like_gpus import majority, models, raise_unread


@check(
    "pcie-link-uneven",
    title="GPUs of one model have equal PCIe slots",
    short="PCIe unlike its peers",
    follows=("pcie-link-narrow", "pcie-link-limited-by-slot"),
)
def pcie_link_uneven(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus):
        # What GPU and slot can do together. The current generation drops while idle, and a link below what its slot can
        # do is pcie-link-narrow.
        slots: dict[tuple[int, int], list[Gpu]] = {}
        for gpu in group:
            if gpu.pcie_generation_max.is_read and gpu.pcie_width_max.is_read:
                slots.setdefault((gpu.pcie_generation_max.value, gpu.pcie_width_max.value), []).append(gpu)
        if len(slots) < 2:
            continue
        usual = majority([slot for slot, same in slots.items() for _ in same])
        best = usual or max(slots, key=_speed)
        for slot, same in slots.items():
            if _speed(slot) < _speed(best):
                yield _slower(machine, slot, same, best, slots[best], is_odd=usual is not None)
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.pcie_generation_max for gpu in gpus)
    raise_unread(gpu.pcie_width_max for gpu in gpus)


def _speed(slot: tuple[int, int]) -> float:
    """How often a lane of generation 1 is doubled: each generation does it once, and each doubling of the lanes. Not as
    a number of lanes: a driver that lies about its generation would have us compute 2 to the power of that."""
    generation, width = slot
    return generation + log2(max(width, 1))


def _slower(
    machine: Snapshot, slot: tuple[int, int], same: list[Gpu], best: tuple[int, int], peers: list[Gpu], *, is_odd: bool
) -> Problem:
    address = sysfs_address(same[0])
    return Problem(
        # Without a majority the machine is built that way (a desktop's x16 and x4 slots): worth knowing, no fault.
        severity="warning" if is_odd else "info",
        summary=f"{labels(same)}: PCIe generation {slot[0]} x{slot[1]}; "
        f"{labels(peers)} of the same model: generation {best[0]} x{best[1]}",
        meaning="Every step waits for the GPU behind the slower slot, more so without NVLink.",
        evidence=(same[0].pcie_generation_max, same[0].pcie_width_max, peers[0].pcie_generation_max),
        gpus=tuple(gpu.index for gpu in same),
        fix=Fix(
            *by_hand(
                machine,
                "Move the card to a slot like its peers', or look for a riser, a retimer or a BIOS setting that limits "
                "it.",
                command("sudo lspci -vv -s {:pci} | grep -E 'LnkCap|LnkSta'", address)
                if address
                else command("nvidia-smi topo -m"),
            )
        ),
    )
