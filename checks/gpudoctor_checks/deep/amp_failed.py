"""Mixed precision does not work on a device that has it.

Why it matters: autocast that does nothing trains in fp32 without a word, slower and with more memory; a GradScaler that
does not skip an overflow ruins the weights; an exception ends the training in its first step.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named

IN_HARDWARE = ("hardware", "hardware, slow", "unknown")


@check("amp-failed", title="Autocast and GradScaler work on every device", follows=("smoke-failed",))
def amp_failed(machine: Snapshot) -> Problems:
    amp = machine.active.amp
    unread = None
    for target in amp.value:
        results = target.results
        if not results.is_read and results.missing_kind != "failed":
            unread = results
            continue
        failures: list[tuple[str, str, Severity]] = [("mixed precision", results.reason, "error")]
        if results.is_read:
            failures = [
                (result.dtype, result.error, "error" if result.support in IN_HARDWARE else "warning")
                for result in results.value
                if result.outcome == "failed"
            ]
        for what, error, severity in failures:
            gpu = gpu_tested(machine, target)
            yield Problem(
                severity=severity,
                summary=f"{named(target, gpu)}: {what} does not work: {error.rstrip('.') or 'no reason was told'}",
                meaning="A training in mixed precision on this device fails, or runs in fp32 without saying so.",
                evidence=(results, amp),
                fix=Fix(
                    "Test the device alone, with everything that is measured; when fp32 works there, install torch "
                    "anew or in another build.",
                    commands=(command("gpudoctor amp --device {:device}", target.device),),
                ),
                gpus=(gpu.index,) if gpu else (),
            )
    if unread is not None:
        _ = unread.value
