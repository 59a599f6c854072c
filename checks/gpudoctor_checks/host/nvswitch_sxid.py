"""An NVSwitch logged an error (SXid).

Why it matters: after a fatal one, the links of a switch are down: every collective that uses them hangs, and CUDA
programs end with Xid 45 or 74 until the fabric is reset. Non-fatal ones are retried by the hardware and tell of a link
or a peer that is not well.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.gpus.xid import SXID_CORRECTED, SXID_NAMES, by_code, is_recent, latest, times
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import XidEvent, read


@check("nvswitch-sxid", title="The kernel log holds no errors of NVSwitches")
def nvswitch_sxid(machine: Snapshot) -> Problems:
    log = machine.host.kernel_log
    for code, lines in by_code(event for event in log.value.events if event.is_switch).items():
        # The driver prints details of an error on lines of its own, which do not say how grave it is.
        events = [event for event in lines if event.fatal is not None] or lines
        switches = list(dict.fromkeys(event.pci_bus_id for event in events))
        fatal = any(event.fatal for event in events)
        yield Problem(
            severity=_severity(code, events),
            summary=f"{'Fatal' if fatal else 'Non-fatal'} SXid {code} ({SXID_NAMES.get(code, 'an NVSwitch error')}) "
            f"on the switch at {listed(switches, 2)}, {times(events)}",
            meaning="Collectives over this switch hang, and CUDA programs end with Xid 45 or 74."
            if fatal
            else "The hardware went on; many of them tell of a bad link or of a GPU that failed first.",
            evidence=(read(log.source, latest(events).message or f"SXid {code}"),),
            fix=Fix.of(
                "Drain the machine and restart it, which resets the whole fabric; show the log to the vendor when it "
                "comes back."
                if fatal
                else "Look for a fatal one, or an Xid of a GPU, at the same time.",
                command("sudo dmesg -T | grep -E 'SXid|NVRM: Xid' | tail -n 20"),
                command("nvidia-smi nvlink -e"),
            ),
        )


def _severity(code: int, events: list[XidEvent]) -> Severity:
    recent = [event for event in events if is_recent(event)]
    if any(event.fatal for event in recent):
        return "error"
    # Single-bit errors are corrected without a trace; all others deserve a look while they are new.
    return "info" if code in SXID_CORRECTED or not recent else "warning"
