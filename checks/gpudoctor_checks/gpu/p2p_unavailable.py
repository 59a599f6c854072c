"""GPUs cannot reach each other's memory (peer-to-peer).

Why it matters: without NVLink or PCIe peer-to-peer, NCCL copies every gradient through host memory, which costs a large
part of the speed on several GPUs. GeForce cards are made without it. On GeForce RTX 40, drivers before 550.40.07
promise an access that does not work, and jobs hang or fail in their first collective.
"""

import re
from collections import Counter

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_models import is_ada_consumer, is_consumer
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_virtual_machine
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import gpus as named
from gpudoctor.snapshot import PeerAccess

FIRST_SOUND_ADA_DRIVER = (550, 40, 7)  # accelerate, utils/environment.py: check_cuda_p2p_ib_support
NO_WAY = ("chipset-not-supported", "topology-not-supported")
CAUSES = {
    "chipset-not-supported": "the chipset does not support it",
    "gpu-not-supported": "the GPUs do not support it with each other",
    "topology-not-supported": "the PCIe topology does not allow it",
    "disabled-by-registry": "it is switched off by a driver option",
    "not-supported": "it is not supported",
    "unknown": "the driver does not say why",
}


@check("p2p-unavailable", title="GPUs reach each other's memory", short="no peer access")
def p2p_unavailable(machine: Snapshot) -> Problems:
    peers = machine.nvidia.peers
    gpus = {gpu.index: gpu for gpu in machine.nvidia.gpus.value}
    pairs = peers.value
    yield from _promised_in_vain(machine, list(gpus.values()))
    blocked = [pair for pair in pairs if pair.read != "ok" and _could_be_peers(pair, gpus)]
    if not blocked:
        return
    status = Counter(pair.read for pair in blocked).most_common(1)[0][0]
    concerned = sorted({index for pair in blocked for index in (pair.from_gpu, pair.to_gpu)})
    # GeForce cards are sold without it, whether a virtual machine gets it is the platform's decision, and across the
    # CPU sockets many machines have none (DGX-1: GPUs of two sockets without a direct NVLink).
    expected = (
        all(is_consumer(gpus[pair.from_gpu].name.value) or _across_sockets(pair, machine, gpus) for pair in blocked)
        or perhaps_in_virtual_machine(machine) is not False
    )
    yield Problem(
        severity="info" if expected else "warning",
        summary=f"No peer-to-peer access in {len(blocked)} of {len(pairs)} directions between {named(concerned)}: "
        f"{CAUSES.get(status, status)}",
        meaning="NCCL copies through host memory instead (SHM transport): slower, and it needs room in /dev/shm.",
        evidence=(peers,),
        gpus=tuple(concerned),
        fix=Fix(
            "Nothing is to be done about the hardware; larger batches or gradient accumulation make the exchange rarer."
            if expected
            else "Look at the topology, at the IOMMU and ACS settings in BIOS and kernel, and at the driver's options.",
            commands=(command("nvidia-smi topo -p2p r"), command("nvidia-smi topo -m"))
            + (
                ()
                if expected
                else (command("grep -s . /proc/driver/nvidia/params | grep -i peer"), command("cat /proc/cmdline"))
            ),
        ),
    )


def _across_sockets(pair: PeerAccess, machine: Snapshot, gpus: dict[int, Gpu]) -> bool:
    """Whether the way between two CPU sockets is what does not carry it, and no NVSwitch leads around it."""
    ends = {pair.from_gpu, pair.to_gpu}
    if any(link.remote == "switch" for index in ends for link in gpus[index].nvlinks.value_or(())):
        return False
    return pair.read in NO_WAY and any(
        level.level == "system" and {level.gpu, level.other} == ends for level in machine.nvidia.topology.value_or(())
    )


def _could_be_peers(pair: PeerAccess, gpus: dict[int, Gpu]) -> bool:
    """MIG devices never are, and GPUs of different models often not: neither is a fault."""
    ends = [gpus[index] for index in (pair.from_gpu, pair.to_gpu) if index in gpus]
    if any(if_present(gpu.mig_mode) for gpu in ends):
        return False
    return len(ends) == 2 and ends[0].name.value == ends[1].name.value


def _promised_in_vain(machine: Snapshot, gpus: list[Gpu]) -> Problems:
    cards = [gpu for gpu in gpus if gpu.name.is_read and is_ada_consumer(gpu.name.value)]
    if len(cards) < 2:
        return
    driver = machine.nvidia.driver_version
    version = tuple(int(part) for part in re.findall(r"\d+", driver.value, re.ASCII))
    if version >= FIRST_SOUND_ADA_DRIVER or machine.environment.value.get("NCCL_P2P_DISABLE") == "1":
        return
    yield Problem(
        severity="warning",
        summary=f"{len(cards)} GeForce RTX 40 GPUs with driver {driver.value}; peer-to-peer is sound from 550.40.07 on",
        meaning="The driver promises NCCL an access that these cards do not have: the first collective hangs or fails.",
        evidence=(driver, cards[0].name),
        gpus=tuple(gpu.index for gpu in cards),
        fix=Fix(
            "Upgrade the driver to 550.40.07 or later, or switch peer-to-peer off for every job.",
            commands=(command("export NCCL_P2P_DISABLE=1"), command("export NCCL_IB_DISABLE=1")),
        ),
    )
