"""The open-source driver nouveau holds an NVIDIA GPU.

Why it matters: nouveau drives displays and has no CUDA. While it holds the GPU, NVIDIA's driver cannot take it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci

INITRAMFS = {"Ubuntu": command("sudo update-initramfs -u"), "Debian": command("sudo update-initramfs -u")}
"""nouveau is loaded from the initial RAM disk, which must be told too. Red Hat, Fedora and SUSE use dracut."""


@check("nouveau-bound", title="No NVIDIA GPU is held by nouveau")
def nouveau_bound(machine: Snapshot) -> Problems:
    devices = gpus_on_pci(machine)
    held = [device for device in devices if device.driver == "nouveau"]
    if not held:
        return
    others = len(devices) - len(held)
    distribution = machine.host.distribution.value_or("").partition(" ")[0]
    yield Problem(
        # Beside GPUs that NVIDIA's driver serves, one for the display may be meant.
        severity="warning" if others else "error",
        summary=f"{len(held)} of {len(devices)} NVIDIA GPUs "
        f"({', '.join(device.bus_id for device in held[:4])}) held by nouveau, which has no CUDA",
        meaning="CUDA cannot use " + ("this GPU." if len(held) == 1 else "these GPUs."),
        evidence=(machine.accelerators.pci,),
        fix=Fix.of(
            "Keep nouveau from being loaded, install NVIDIA's driver, and reboot.",
            command(
                "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee "
                "/etc/modprobe.d/blacklist-nouveau.conf"
            ),
            INITRAMFS.get(distribution, command("sudo dracut --force")),
            command("sudo reboot"),
        ),
    )
