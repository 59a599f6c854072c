"""A device does not finish the test of fp16 and bf16 in time.

Why it matters: the nets of this test are tiny. A device that does not return from one in half a minute hangs a training
in the same precision, and all other ranks with it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named


@check("amp-timeout", title="Every device finishes the test of fp16 and bf16 in time", follows=("smoke-timeout",))
def amp_timeout(machine: Snapshot) -> Problems:
    amp = machine.active.amp
    for target in amp.value:
        late = [] if target.results.missing_kind != "timeout" else [target.results.reason]
        late += [
            f"{result.dtype}: {result.error}" for result in target.results.value_or(()) if result.outcome == "timeout"
        ]
        if not late:
            continue
        gpu = gpu_tested(machine, target)
        yield Problem(
            severity="error",
            summary=f"{named(target, gpu)}: {late[0].rstrip('.')}",
            meaning="A training in mixed precision may hang on this device, and all its ranks with it.",
            evidence=(target.results, amp),
            fix=Fix.of(
                "Give it more time once, alone; when it hangs again, read the kernel log.",
                command("gpudoctor amp --device {:device} --timeout 300", target.device),
                command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
            ),
            gpus=(gpu.index,) if gpu else (),
        )
