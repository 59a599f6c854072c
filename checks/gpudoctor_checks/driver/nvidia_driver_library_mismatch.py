"""The driver's library and its loaded kernel module are of different versions.

Why it matters: after a driver upgrade (unattended upgrades do it too) the old module stays loaded until a reboot, and
every new CUDA program fails; programs that were already running go on.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_container

UNLOAD_ORDER = ("nvidia_peermem", "nvidia_fs", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
"""Users before the used; rmmod refuses a module that is in use."""


@check("nvidia-driver-library-mismatch", title="Driver library and kernel module are of one version")
def nvidia_driver_library_mismatch(machine: Snapshot) -> Problems:
    code = machine.nvidia.init_code
    if code.value != nvml_errors.VERSION_MISMATCH:
        return
    module, library = machine.nvidia.kernel_module_version, machine.nvidia.driver_version
    loaded = machine.accelerators.kernel_modules.value_or(())
    to_unload = [name for name in UNLOAD_ORDER if name in loaded] or list(UNLOAD_ORDER[2:])
    inside = perhaps_in_container(machine)
    yield Problem(
        severity="error",
        summary="The NVIDIA library does not match the loaded kernel module"
        + (f": module {module.value}" if module.is_read else "")
        + (f", library {library.value}" if module.is_read and library.is_read else "")
        + f" (NVML error {code.value})",
        meaning="Every CUDA program that starts now fails, until the module is loaded afresh.",
        evidence=(code, *((module,) if module.is_read else ())),
        fix=Fix(
            "Recreate this container: it still has the libraries of the driver that the host had when it was created."
            if inside
            else ("" if inside is False else "In a container: recreate it, for it still has the old libraries. Else: ")
            + "Reboot. Then keep the packages from being upgraded unattended.",
            commands=(command("cat /proc/driver/nvidia/version"), command("ldconfig -p | grep libnvidia-ml"))
            if inside
            else (command("sudo reboot"),),
            otherwise=()
            if inside
            else (
                Fix(
                    "Without a reboot: end everything that uses a GPU, the desktop too, and load the module afresh.",
                    (command("sudo rmmod {:names} && sudo modprobe nvidia", to_unload),),
                ),
            ),
        ),
    )
