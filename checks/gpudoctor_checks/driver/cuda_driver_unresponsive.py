"""Initialising CUDA takes for ever.

Why it matters: torch.cuda.is_available() and every training hang before their first line of output, and often cannot be
killed, while nvidia-smi may look fine.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.snapshot import require


@check("cuda-driver-unresponsive", title="CUDA initialises in time")
def cuda_driver_unresponsive(machine: Snapshot) -> Problems:
    answer = machine.cuda.visible
    if answer.missing_kind != "timeout":
        require(answer)  # what was not asked is not known to answer
        return
    stuck = machine.host.stuck_processes
    hanging = [process for process in stuck.value_or(()) if process.state == "D"]
    named = ", ".join(f"{process.pid} ({process.name})" for process in hanging[:3])
    yield Problem(
        severity="error",
        summary=f"CUDA does not initialise: {answer.reason}",
        meaning="A training hangs before its first line of output."
        + (f" Stuck in the kernel already: {named}." if hanging else ""),
        evidence=(answer, *((stuck,) if hanging else ())),
        fix=Fix(
            "Read what the driver last said. Without persistence mode, many GPUs can take longer than the deadline: "
            "then ask again with more patience.",
            (
                command("sudo dmesg -T | grep -iE 'xid|nvrm' | tail -n 20"),
                command("gpudoctor check --timeout 60"),
            ),
            otherwise=(
                Fix(
                    "Load nvidia_uvm afresh while nothing uses the GPUs; when that is refused, reboot.",
                    (command("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"),),
                ),
            ),
        ),
    )
