"""The machine has NVSwitches, and no fabric manager runs.

Why it matters: the fabric manager sets up the NVSwitches. Without it CUDA does not start on HGX and DGX boards (error
802, system not yet initialized), while nvidia-smi looks fine.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_models import is_superchip
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container, switches_on_pci
from gpudoctor.snapshot import NotRead, missing


@check("fabric-manager-not-running", title="The fabric manager runs where there are NVSwitches")
def fabric_manager_not_running(machine: Snapshot) -> Problems:
    switches = switches_on_pci(machine)
    gpus = machine.nvidia.gpus
    if not switches or any(is_superchip(gpu.name.value_or("")) for gpu in gpus.value_or(())):
        return  # PCIe boards need none, and a superchip's switches are run from elsewhere
    manager = machine.host.fabric_manager
    if manager.value:
        return
    if in_container(machine):
        raise NotRead(missing(manager.source, "a container does not see the host's fabric manager; look on the host"))
    driver = machine.nvidia.driver_version
    package = ""
    if driver.is_read:
        package = f" ({driver.value}, package nvidia-fabricmanager-{driver.value.partition('.')[0]} on Ubuntu)"
    yield Problem(
        severity="error",
        summary=f"No fabric manager runs; the machine has {len(switches)} NVSwitches that need it",
        meaning="CUDA fails to start with error 802 (system not yet initialized), or NVLink is not used.",
        evidence=(manager, machine.accelerators.pci),
        fix=Fix.of(
            f"Start it; where it is not installed, install the version of the driver{package}.",
            command("sudo systemctl enable --now nvidia-fabricmanager"),
            command("sudo journalctl -u nvidia-fabricmanager -n 50 --no-pager"),
        ),
    )
