"""The NVIDIA driver logged an error (Xid) that a program caused.

Why it matters: the job that ran into it is dead, and the GPU is well. The cause is in the program, its kernels or the
libraries it uses (an index out of range, a pointer freed too early), so it comes back until that is mended; another
machine would show the same.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_lookup import gpus_at, place
from gpudoctor.knowledge.gpus.xid import THEN_SUPPORT, by_code, explain, is_recent, latest, times
from gpudoctor.snapshot import read


@check("gpu-xid-application", title="The kernel log holds no GPU errors of programs")
def gpu_xid_application(machine: Snapshot) -> Problems:
    log = machine.host.kernel_log
    for code, events in by_code(event for event in log.value.events if not event.is_switch).items():
        xid = explain(code)
        if xid.level == "hardware":
            continue
        cards, addresses = machine.nvidia.gpus.value_or(()), [event.pci_bus_id for event in events]
        is_notice = xid.level == "notice"
        yield Problem(
            severity="info" if is_notice or not any(map(is_recent, events)) else "warning",
            summary=f"Xid {code} ({xid.name}) on {place(cards, addresses)}, {times(events)}",
            meaning=f"{xid.meaning[0].upper()}{xid.meaning[1:]}. "
            + ("NVIDIA asks for nothing to be done." if is_notice else "That job died; the GPU itself is well."),
            evidence=(read(log.source, latest(events).message or f"Xid {code}"),),
            fix=Fix(
                "Read the lines around it; another Xid or a killed job explains most of these."
                + (" When it comes back alone, NVIDIA wants to be asked." if code in THEN_SUPPORT else "")
                if is_notice
                else "Find the process in the log line (pid=, name=), and run that program again with "
                "CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer, which name the kernel.",
                commands=(command("sudo dmesg -T | grep -E 'NVRM: Xid' | tail -n 20"),),
            ),
            gpus=tuple(gpu.index for gpu in gpus_at(cards, addresses)),
            short=f"Xid {code}",
        )
