"""The fabric manager is not of the driver's version.

Why it matters: it refuses to work with another version of the driver, to the last digit. After a driver upgrade that
left it behind, CUDA does not start (error 802).
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import switches_on_pci
from gpudoctor.snapshot import NotRead, missing

VERSION_UNKNOWN = "running"  # snapshot.Host.fabric_manager, when only the process was seen


@check("fabric-manager-version-differs", title="The fabric manager is of the driver's version")
def fabric_manager_version_differs(machine: Snapshot) -> Problems:
    if not switches_on_pci(machine):
        return
    manager, driver = machine.host.fabric_manager, machine.nvidia.driver_version
    if not manager.value:  # fabric-manager-not-running
        return
    if manager.value == VERSION_UNKNOWN:
        raise NotRead(
            missing(manager.source, "it runs, and its version is not known; nv-fabricmanager --version tells")
        )
    if manager.value != driver.value:
        branch = driver.value.partition(".")[0]
        yield Problem(
            severity="error",
            summary=f"Fabric manager {manager.value} does not match driver {driver.value}; they must be equal",
            meaning="The NVSwitch fabric is not set up, and CUDA fails to start with error 802.",
            evidence=(manager, driver),
            fix=Fix.of(
                "Install the fabric manager of the driver's version and restart it; keep both packages from being "
                "upgraded apart. The first line is for Ubuntu.",
                command("sudo apt install {}", f"nvidia-fabricmanager-{branch}={driver.value}*"),
                command("sudo systemctl restart nvidia-fabricmanager"),
            ),
        )
