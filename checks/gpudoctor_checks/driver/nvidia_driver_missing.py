"""There is an NVIDIA GPU on the PCI bus, and no NVIDIA driver to use it.

Why it matters: torch.cuda.is_available() is False and training runs on the CPU, or not at all.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci, is_of_a_file, perhaps_in_container
from gpudoctor.knowledge.wording import counted

GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
INSTALL = {
    "Ubuntu": (command("sudo ubuntu-drivers install"), command("sudo reboot")),
    "Debian": (command("sudo apt install nvidia-driver firmware-misc-nonfree"), command("sudo reboot")),
    "Arch": (command("sudo pacman -S nvidia-open nvidia-utils"), command("sudo reboot")),
}
"""By the first word of the distribution's name; the others need a repository first, which the guide explains."""


@check("nvidia-driver-missing", title="The NVIDIA driver is installed")
def nvidia_driver_missing(machine: Snapshot) -> Problems:
    code = machine.nvidia.init_code
    if code.value != nvml_errors.LIBRARY_NOT_FOUND:
        return
    if is_of_a_file(machine):
        yield _by_its_message(machine)
        return
    devices = gpus_on_pci(machine)
    if not devices or perhaps_in_container(machine):  # nvml-library-missing-in-container judges containers
        return
    if any(device.driver == "nouveau" for device in devices):  # nouveau-bound has the whole cure
        return
    first = f"{counted(len(devices), 'NVIDIA GPU')} on the PCI bus ({devices[0].bus_id}"
    first += ", ...)" if len(devices) > 1 else ")"
    module = machine.nvidia.kernel_module_version
    if module.is_read:
        yield Problem(
            severity="error",
            summary=f"{first}, kernel driver {module.value} is loaded, but its library libnvidia-ml.so.1 was not found",
            meaning="CUDA programs find no GPU: the user-space half of the driver is not installed.",
            evidence=(code, module, machine.accelerators.pci),
            fix=Fix.of(
                f"Install the libraries of exactly version {module.value}; on Ubuntu and Debian the lines do it.",
                command("sudo apt install {:name}", "libnvidia-compute-" + module.value.partition(".")[0]),
                command("ldconfig -p | grep libnvidia-ml"),
            ),
        )
        return
    distribution = machine.host.distribution.value_or("")
    yield Problem(
        severity="error",
        summary=f"{first}, but no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)",
        meaning="torch.cuda.is_available() is False: training runs on the CPU or stops.",
        evidence=(code, machine.accelerators.pci),
        fix=Fix(
            f"Install the driver, as {GUIDE} describes for each distribution, and reboot.",
            commands=INSTALL.get(distribution.partition(" ")[0], ())
            or (command("lspci -k -s {:pci}", devices[0].bus_id),),
        ),
    )


def _by_its_message(machine: Snapshot) -> Problem:
    """From nvidia-smi's own words: neither the bus nor the place where it ran is known."""
    return Problem(
        severity="error",
        summary="nvidia-smi finds no libnvidia-ml.so: no NVIDIA driver is installed there, or a container lacks it",
        meaning="torch.cuda.is_available() is False: training runs on the CPU or stops.",
        evidence=(machine.nvidia.init_code,),
        fix=Fix.of(
            f"On a machine: see whether the library is there; if not, install the driver ({GUIDE}). In a container: "
            "start it with the GPUs (the third line), so that the host's libraries are mounted.",
            command("ldconfig -p | grep libnvidia-ml"),
            command("cat /proc/driver/nvidia/version"),
            command("docker run --rm --gpus all ubuntu nvidia-smi"),
        ),
    )
