"""The driver serves fewer GPUs than there are on the PCI bus.

Why it matters: a GPU whose initialisation failed is missing without a word. A job that expects it fails with "invalid
device ordinal" or waits for a rank that never comes.
"""

from collections.abc import Mapping

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import DRIVER_MISSING, GPU_LOST
from gpudoctor.knowledge.gpus.gpu_lookup import gpu_at
from gpudoctor.knowledge.gpus.nvidia_hardware import (
    gpus_on_pci,
    in_container,
    is_pasted,
    perhaps_in_container,
    withheld_nodes,
)
from gpudoctor.snapshot import PciDevice


@check(
    "gpu-count-below-pci",
    title="The driver serves every NVIDIA GPU on the PCI bus",
    short="not found",
    follows=(*GPU_LOST, "driver-serves-no-gpu", *DRIVER_MISSING),
)
def gpu_count_below_pci(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus
    devices = [device for device in gpus_on_pci(machine) if device.driver != "nouveau"]
    if len(devices) <= len(gpus.value):
        return
    # A container or a SLURM job is given some of the GPUs, and the PCI bus in /sys shows them all (DCGM #90).
    is_part = perhaps_in_container(machine) if is_pasted(machine) else in_container(machine)
    if is_part or "SLURM_JOB_ID" in _environment(machine):
        return
    nodes = machine.accelerators.device_nodes
    if nodes.is_read and len(withheld_nodes(machine)) >= len(devices) - len(gpus.value):
        return  # other schedulers' jobs: the device cgroup keeps these GPUs from this one
    missing = [device for device in devices if gpu_at(gpus.value, device.bus_id) is None]
    named = _unserved(missing, len(devices) - len(gpus.value))
    models = {device.device for device in devices if device not in missing}
    # A card of another kind may be an old one for the display, which this driver no longer supports.
    is_odd = bool(models) and not any(device.device in models for device in missing)
    # Where nothing tells of a container or a job, a half or a quarter of the GPUs is rather its share than a fault.
    may_be_a_share = is_part is None and len(gpus.value) * 2 <= len(devices)
    yield Problem(
        severity="warning" if is_odd or may_be_a_share else "error",
        summary=f"The driver serves {len(gpus.value)} of the {len(devices)} NVIDIA GPUs on the PCI bus" + named,
        meaning="A job that counts on the missing GPU does not start, or waits for its rank until it times out."
        + (
            " In a container or a job that was given some of the GPUs, it is as it should be."
            if is_part is None
            else ""
        ),
        evidence=(gpus, machine.accelerators.pci),
        fix=Fix.of(
            "Read why the driver could not initialise it; a power cycle often brings it back, a GPU that is too old "
            "for this driver stays away.",
            command("sudo dmesg -T | grep -iE 'nvrm|xid'"),
            *(command("lspci -nnk -s {:pci}", device.bus_id) for device in missing[:4]),
        ),
    )


def _environment(machine: Snapshot) -> Mapping[str, str]:
    """Pasted output never has it, and a finding must not wait for it. Raises `NotRead` for a machine that should."""
    return machine.environment.value_or({}) if is_pasted(machine) else machine.environment.value


def _unserved(missing: list[PciDevice], count: int) -> str:
    """Which they are; not known where a counted GPU's address could not be read."""
    return f" (without {', '.join(device.bus_id for device in missing)})" if len(missing) == count else ""
