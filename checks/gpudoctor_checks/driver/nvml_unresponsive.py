"""The NVIDIA driver does not answer: an NVML call did not return.

Why it matters: the driver is wedged, often by a GPU in trouble. nvidia-smi hangs, CUDA programs hang in their first
call, and processes that touch the GPU can no longer be killed.
"""

from typing import Any

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_readings import first_missing
from gpudoctor.knowledge.wording import gpus as named_gpus
from gpudoctor.snapshot import Reading, require


@check("nvml-unresponsive", title="The NVIDIA driver answers every query in time")
def nvml_unresponsive(machine: Snapshot) -> Problems:
    nvidia = machine.nvidia
    slow: list[Reading[Any]] = [
        reading
        for reading in (nvidia.init_code, nvidia.gpus, nvidia.driver_version, nvidia.peers)
        if reading.missing_kind == "timeout"
    ]
    hung: list[Gpu] = []
    for gpu in nvidia.gpus.value_or(()):
        late = first_missing(gpu, "timeout")
        if late is not None:
            hung.append(gpu)
            slow.append(late)
    if not slow:
        require(nvidia.init_code)  # nothing was asked, or it failed in another way
        return
    stuck = machine.host.stuck_processes
    hanging = [process for process in stuck.value_or(()) if process.state == "D"]
    named = ", ".join(f"{process.pid} ({process.name})" for process in hanging[:3])
    yield Problem(
        severity="error",
        summary=f"The NVIDIA driver does not answer: {slow[0].reason}",
        meaning="Programs that use "
        + (named_gpus([gpu.index for gpu in hung]) if hung else "a GPU")
        + " hang too, torch.cuda.is_available() among them."
        + (f" Stuck in the kernel already: {named}." if hanging else ""),
        evidence=(slow[0], *((stuck,) if hanging else ())),
        gpus=tuple(gpu.index for gpu in hung),
        fix=Fix.of(
            "Read what the driver last said and reboot; when the machine does not come down, power-cycle it. A GPU "
            "that does it again wants its power, cooling and seating looked at. If the machine was only slow, ask "
            "again with more patience.",
            command("sudo dmesg -T | grep -iE 'xid|nvrm' | tail -n 20"),
            command("gpudoctor check --timeout 60"),
        ),
    )
