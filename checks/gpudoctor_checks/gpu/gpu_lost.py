"""A GPU has fallen off the bus: the driver counts it, but it no longer answers.

Why it matters: CUDA cannot be initialised on it, and often on none of the machine's GPUs; a running job hangs or dies.
The cause is power, heat, a riser or the card itself (Xid 79), and a reboot without a power cycle often does not help.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.gpus.gpu_lookup import same_address
from gpudoctor.knowledge.gpus.gpu_readings import first_missing
from gpudoctor.snapshot import require

FELL_OFF_THE_BUS = 79  # Xid 79, NVIDIA's Xid catalogue: "GPU has fallen off the bus"


@gpu_check("gpu-lost", title="Every GPU answers on the PCIe bus", short="lost", follows=("gpu-silent-on-pci",))
def gpu_lost(gpu: Gpu, machine: Snapshot) -> Problems:
    lost = first_missing(gpu, "lost")
    if lost is None:
        require(gpu.memory_used_bytes)  # a GPU that could not be asked is not known to be there
        return
    log, address = machine.host.kernel_log, gpu.pci_bus_id.value_or("")
    seen = log.is_read and any(
        event.code == FELL_OFF_THE_BUS and (not address or same_address(event.pci_bus_id, address))
        for event in log.value.events
    )
    yield Problem(
        severity="error",
        summary=f"{label(gpu)} is lost: {lost.source} says {lost.reason}"
        + ("; the kernel log has Xid 79, fallen off the bus" if seen else ""),
        meaning="No program can use this GPU, and CUDA may fail on the others too; a job that used it hangs or has "
        "died.",
        evidence=(lost, *((log,) if seen else ())),
        fix=Fix(
            *by_hand(
                machine,
                "When it happens again, check the power cables, the cooling and the seating of this card, and have it "
                "replaced.",
                command("sudo dmesg -T | grep -iE 'xid|fallen off the bus'"),
                first="Drain the machine and power-cycle it (off and on, not a reboot).",
            )
        ),
    )
