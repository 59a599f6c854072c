"""A virtual GPU has no licence of NVIDIA's vGPU software.

Why it matters: such a GPU starts at full pace and is restricted by its driver when no licence comes within its first
minutes: frames are capped, what a program may allocate is limited, and CUDA is turned off or crawls, with no error that
says why.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.lazy import lazy_re

VIRTUAL = lazy_re(r"^GRID |-\d{1,3}[ABCQ]\b")
"""Names of virtual GPUs end in their memory and series: "NVIDIA A40-48Q", "GRID T4-16C" (vGPU user guide). A whole GPU
whose driver also knows licences says "Unlicensed" too and computes at full pace."""


@gpu_check("vgpu-unlicensed", title="Virtual GPUs have their licence", short="no licence")
def vgpu_unlicensed(gpu: Gpu, machine: Snapshot) -> Problems:
    licence = gpu.vgpu_licence
    is_virtual = VIRTUAL.search(gpu.name.value_or("")) is not None
    if not is_virtual and (not licence.is_read or "(" not in licence.value):
        return
    status = licence.value.casefold()
    if not status.startswith("unlicensed"):
        return
    is_restricted = "(restricted)" in status
    yield Problem(
        severity="error" if is_restricted else "warning",
        summary=f"{label(gpu)} is a virtual GPU without licence" + (", and restricted" if is_restricted else ""),
        meaning="Its driver limits what programs may allocate and turns CUDA off or slows it down: a training fails or "
        "crawls."
        if is_restricted
        else "It computes at full pace for its first minutes; then its driver turns CUDA off or slows it down.",
        evidence=(licence,),
        fix=Fix.of(
            "Give the virtual machine a licence: a client configuration token in /etc/nvidia/ClientConfigToken, a "
            "licence server that it reaches, and the right time; whoever runs the host has both. It then needs no "
            "reboot.",
            command("sudo systemctl restart nvidia-gridd"),
            command("sudo journalctl -u nvidia-gridd -n 30 --no-pager"),
        ),
    )
