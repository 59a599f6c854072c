"""What the environment and the CUDA driver say of the job that would start here: its GPUs and its nodes."""

import ipaddress
from collections.abc import Mapping

from gpudoctor.knowledge import rank_variables
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci
from gpudoctor.knowledge.presence import if_present
from gpudoctor.snapshot import Gpu, Snapshot

GROUPS = tuple((names.world_size, names.local_size) for names in (rank_variables.TORCHRUN, rank_variables.OPEN_MPI))
"""Ranks in all and ranks on this node."""
TORCHRUN, MPIRUN = (local for _, local in GROUPS)
OTHER_LAUNCHERS = (MPIRUN, "SLURM_NTASKS_PER_NODE")
"""Ranks on this node, by launchers that leave the number of threads alone."""


def is_multi_node(environment: Mapping[str, str]) -> bool:
    """Whether the environment shows a launch over several nodes (SLURM, torchrun, Open MPI, MASTER_ADDR)."""
    if max(number_of(environment, "SLURM_NNODES"), number_of(environment, "SLURM_JOB_NUM_NODES")) > 1:
        return True
    for every, local in GROUPS:
        if every in environment and local in environment:
            return number_of(environment, every) > number_of(environment, local) > 0
    if number_of(environment, "SLURM_NNODES") == 1:
        return False
    return bool(environment.get("MASTER_ADDR")) and not is_loopback(environment["MASTER_ADDR"])


def is_loopback(address: str) -> bool:
    """Whether an address, or the name "localhost", leads to the machine itself only."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address.strip().lower().partition(".")[0] in ("localhost", "ip6-localhost")


def gpu_count(machine: Snapshot) -> int:
    """NVIDIA GPUs of this machine; 0 where it has none. Raises `NotRead`.

    NVML's count; where NVML does not answer, what the PCI bus shows, so that the host is judged all the same.
    """
    gpus = machine.nvidia.gpus
    if not gpus.is_read and gpus.missing_kind != "absent" and machine.accelerators.pci.is_read:
        return len(gpus_on_pci(machine))
    return len(if_present(gpus) or ())


def job_gpu_count(machine: Snapshot) -> int:
    """GPUs that a CUDA program started here gets, fewer than NVML counts under CUDA_VISIBLE_DEVICES.

    Raises `NotRead` (or `NotApplicable`, without an NVIDIA GPU).
    """
    every = len(machine.nvidia.gpus.value)
    visible = machine.cuda.visible.value_or(None)
    return min(every, len(visible.devices)) if visible is not None and visible.devices else every


def launched_ranks(environment: Mapping[str, str]) -> int:
    """Ranks on this node by what a launcher has set; 0 where none has."""
    return next((count for name in (*OTHER_LAUNCHERS, TORCHRUN) if (count := number_of(environment, name))), 0)


def is_of_job(gpu: Gpu, machine: Snapshot) -> bool:
    """Whether a CUDA program started here gets this GPU (or a MIG device on it); True when nobody could tell."""
    visible = machine.cuda.visible.value_or(None)
    address = gpu.pci_bus_id.value_or("")
    if visible is None or not visible.devices or not address:
        return True
    return any(device.pci_bus_id == address for device in visible.devices)


def number_of(environment: Mapping[str, str], name: str) -> int:
    """A variable that holds a number; 0 when it is unset, or holds what no number of ranks, nodes or threads is."""
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
