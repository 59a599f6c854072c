"""The NVIDIA driver is installed, but its kernel module is not loaded.

Why it matters: no program can reach a GPU. Usual causes: a new kernel for which the module was not built (DKMS), secure
boot that refuses an unsigned module, nouveau in its place, or a GPU too old or too new for this driver.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci, has_gpu, is_of_a_file, perhaps_in_container
from gpudoctor.knowledge.wording import counted


@check("nvidia-driver-not-loaded", title="The NVIDIA kernel module is loaded")
def nvidia_driver_not_loaded(machine: Snapshot) -> Problems:
    code = machine.nvidia.init_code
    if code.value != nvml_errors.DRIVER_NOT_LOADED or not has_gpu(machine):
        return  # the driver's libraries without a GPU are no fault: one image serves machines with and without
    pci = machine.accelerators.pci
    devices = () if is_of_a_file(machine) else gpus_on_pci(machine)
    if any(device.driver == "nouveau" for device in devices):  # nouveau-bound has the whole cure
        return
    kernel = machine.host.kernel_release
    inside = perhaps_in_container(machine)
    yield Problem(
        severity="error",
        summary=f"The NVIDIA driver is installed but not loaded (NVML error {code.value})"
        + (f", with {counted(len(devices), 'NVIDIA GPU')} on the PCI bus" if pci.is_read else "")
        + (f" and kernel {kernel.value}" if kernel.is_read else ""),
        meaning="No program can use a GPU: CUDA says that it finds no driver or no device.",
        evidence=(code, *((pci,) if pci.is_read else ()), *((kernel,) if kernel.is_read else ())),
        fix=Fix(
            "Load the driver on the host, then recreate this container."
            if inside
            else "Load it; when that is refused, the other lines say why: module not built for this kernel (dkms), "
            "secure boot (mokutil), or the driver's own words in the kernel log.",
            commands=(command("sudo modprobe nvidia"),)
            if inside
            else (
                command("sudo modprobe nvidia"),
                command("dkms status"),
                command("mokutil --sb-state"),
                command("sudo dmesg -T | grep -iE 'nvrm|nvidia|nouveau' | tail -n 20"),
            ),
        ),
    )
