"""A device does not finish the smoke test in time.

Why it matters: allocating, multiplying and copying take a second or two. A device that does not return hangs a training
in the same place, without a message, and with it all other ranks.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named


@check(
    "smoke-timeout",
    title="Every device finishes the smoke test in time",
    follows=("cuda-driver-unresponsive", "gpu-lost", "fabric-not-ready"),
)
def smoke_timeout(machine: Snapshot) -> Problems:
    smoke = machine.active.smoke
    for target in smoke.value:
        if target.result.missing_kind != "timeout":
            continue
        gpu = gpu_tested(machine, target)
        yield Problem(
            severity="error",
            summary=f"{named(target, gpu)}: {target.result.reason}",
            meaning="A training that uses this device hangs, and all its ranks with it.",
            evidence=(smoke, target.result),
            fix=Fix.of(
                "Give it more time once; when it hangs again, read the kernel log and reset the GPU, or reboot.",
                command("gpudoctor check --deep --timeout 120 deep"),
                command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
                *((command("sudo nvidia-smi --gpu-reset -i {:number}", gpu.index),) if gpu else ()),
            ),
            gpus=(gpu.index,) if gpu else (),
        )
