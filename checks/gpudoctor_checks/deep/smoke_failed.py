"""A device cannot allocate, multiply or copy.

Why it matters: this is the least that a training step does. A device that fails here fails in the first step, however
healthy its counters look: out of memory because of another job, an uncorrectable memory error, a driver that lost it.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter
from gpudoctor.snapshot import SmokeTarget


@check(
    "smoke-failed",
    title="Every device allocates, multiplies and copies",
    follows=("torch-cuda-unavailable", "torch-without-gpu-kernels", "gpu-lost", "gpu-recovery-action-needed"),
)
def smoke_failed(machine: Snapshot) -> Problems:
    smoke = machine.active.smoke
    hung = None
    for target in smoke.value:
        if target.result.missing_kind == "timeout":
            hung = target.result
            continue
        if target.result.is_read and target.result.value.outcome != "failed":
            continue
        error = failure(target)
        text, lines = advice(error)
        gpu = gpu_tested(machine, target)
        yield Problem(
            severity="error",
            summary=f"{named(target, gpu)} failed the smoke test: {error}",
            meaning="A training that uses this device fails in its first step.",
            evidence=(smoke, target.result),
            fix=Fix(text, commands=(alone(machine, target.device), *lines)),
            gpus=(gpu.index,) if gpu else (),
        )
    if hung is not None:
        _ = hung.value


def failure(target: SmokeTarget) -> str:
    said = target.result.value.error if target.result.is_read else target.result.reason
    return said.rstrip(".") or "no message"


def alone(machine: Snapshot, device: str) -> Command:
    """The line that does the same without gpudoctor."""
    return command(
        "{:python} -c 'import sys, torch; x = torch.ones(1024, 1024, device=sys.argv[1]); "
        "print((x @ x).sum())' {:device}",
        interpreter(machine),
        device,
    )


def advice(error: str) -> tuple[str, tuple[Command, ...]]:
    """What to look at first, by the message."""
    if "out of memory" in error:
        return "End what holds the device's memory, or wait for it.", (command("nvidia-smi"),)
    if "SIGKILL" in error:
        return "The kernel ended the test, most likely for lack of host memory.", (
            command("sudo dmesg -T | grep -i oom"),
        )
    if "no kernel image" in error:
        return "This torch has no code for the GPU: gpudoctor check torch-without-gpu-kernels names a build.", ()
    return "Read the kernel log for the GPU's own message; reset or replace the GPU when it fails again.", (
        command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
    )
