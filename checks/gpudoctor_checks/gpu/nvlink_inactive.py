"""NVLinks that should be up are down.

Why it matters: a GPU with fewer active NVLinks than its peers slows every collective down, and on an NVSwitch board it
can keep CUDA from starting. PCIe cards without a bridge have no active links, and that is fine.
"""

from collections.abc import Sequence

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import FABRIC_DOWN
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import label, labels
from gpudoctor.knowledge.gpus.gpu_models import is_on_baseboard, is_superchip
from gpudoctor.knowledge.gpus.like_gpus import majority, models, raise_unread
from gpudoctor.knowledge.gpus.nvidia_hardware import switches_on_pci
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import ranges
from gpudoctor.snapshot import is_left_out


@check(
    "nvlink-inactive",
    title="NVLinks are up",
    short="NVLink down",
    follows=(*FABRIC_DOWN, "gpu-lost"),
)
def nvlink_inactive(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus) or _unnamed(gpus):
        judged = [gpu for gpu in group if gpu.nvlinks.is_read and not _shares_itself(gpu)]
        active = {gpu.index: sum(link.active for link in gpu.nvlinks.value) for gpu in judged}
        if judged and not any(active.values()):
            yield from _all_down(judged, machine)
            continue
        usual = majority(active.values())
        for gpu in judged:
            if usual is None or active[gpu.index] >= usual:
                continue
            if active[gpu.index] == 0 and not _is_wired(gpu, judged):
                continue  # a PCIe card without a bridge, beside cards that have one
            yield _outlier(machine, gpu, active[gpu.index], usual, len(judged))
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.nvlinks for gpu in gpus)


def _unnamed(gpus: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
    """The matrix of `nvidia-smi topo -m` alone names no models: GPUs that NVLinks join are of one."""
    return [tuple(gpus)] if len(gpus) > 2 and all(is_left_out(gpu.name) for gpu in gpus) else []


def _shares_itself(gpu: Gpu) -> bool:
    """MIG devices use no NVLink, and the fabric manager may switch the links of a GPU in MIG mode off.

    Pasted output need not tell the mode, and `nvidia-smi nvlink` itself refuses such a GPU.
    """
    return not is_left_out(gpu.mig_mode) and bool(if_present(gpu.mig_mode))


def _is_wired(gpu: Gpu, peers: list[Gpu]) -> bool:
    """Its links are traces on a board, as opposed to a bridge that somebody has to plug in."""
    to_a_switch = any(link.remote == "switch" and link.active for peer in peers for link in peer.nvlinks.value)
    if is_left_out(gpu.name):
        return len(peers) > 2
    return to_a_switch or is_on_baseboard(gpu.name.value)


def _all_down(judged: list[Gpu], machine: Snapshot) -> Problems:
    if is_left_out(judged[0].name):
        return
    if not is_on_baseboard(judged[0].name.value) or is_superchip(judged[0].name.value):
        return
    # Without NVSwitches in sight this is a single module, or a virtual machine that was given no fabric.
    if not switches_on_pci(machine):
        return
    yield Problem(
        severity="error",
        summary=f"{labels(judged)}: no NVLink is active, though the machine has NVSwitches",
        meaning="CUDA fails to start with error 802, or the GPUs talk over PCIe at a tenth of the speed or less.",
        evidence=(judged[0].nvlinks, machine.accelerators.pci),
        gpus=tuple(gpu.index for gpu in judged),
        fix=Fix.of(
            "Start the fabric manager, which must be of exactly the driver's version, and read its log.",
            command("sudo systemctl enable --now nvidia-fabricmanager"),
            command("sudo journalctl -u nvidia-fabricmanager -n 50 --no-pager"),
            command("nvidia-smi nvlink -s"),
        ),
    )


def _outlier(machine: Snapshot, gpu: Gpu, active: int, usual: int, count: int) -> Problem:
    down = [link.link for link in gpu.nvlinks.value if not link.active]
    return Problem(
        severity="error",
        summary=f"{label(gpu)} has {active} active NVLinks; most of the {count} GPUs of this model have {usual}"
        + (f" (down: {ranges(down)})" if down else ""),
        meaning="NCCL's collectives run at the speed of this GPU's links, fall back to PCIe, or do not start.",
        evidence=(gpu.nvlinks,),
        gpus=(gpu.index,),
        fix=Fix(
            "Reset all GPUs while nothing runs on them: the links train again.",
            (command("sudo nvidia-smi --gpu-reset"),),
            otherwise=(
                Fix(
                    *by_hand(
                        machine,
                        "Reseat the GPU or its bridge.",
                        command("nvidia-smi nvlink -i {:number} -s", gpu.index),
                        command("sudo dmesg -T | grep -iE 'xid|nvlink'"),
                        first="A link that stays down is a matter of hardware.",
                    )
                ),
            ),
        ),
    )
