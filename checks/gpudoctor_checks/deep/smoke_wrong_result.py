"""A device computes or copies wrongly.

Why it matters: nothing crashes. The training goes on with wrong numbers, and the loss drifts, turns NaN, or converges
to a worse model. ECC does not see errors in the arithmetic units.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.presence import read_first
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named
from gpudoctor.snapshot import missing


@check("smoke-wrong-result", title="Every device computes what the CPU computes")
def smoke_wrong_result(machine: Snapshot) -> Problems:
    smoke, failed = machine.active.smoke, ""
    for target in read_first(smoke.value, lambda target: target.result):
        if target.result.value.outcome == "failed":
            failed = target.device
            continue
        if target.result.value.outcome != "wrong-result":
            continue
        result = target.result.value
        gpu = gpu_tested(machine, target)
        yield Problem(
            severity="error",
            summary=f"{named(target, gpu)}: {result.error or 'a wrong result'}; the CPU's result was wanted",
            meaning="This device corrupts the training without an error message.",
            evidence=(target.result, smoke),
            fix=Fix.of(
                "Take the device out of service, run the test again, and have it replaced when it fails twice. "
                "An overclocked GPU computes wrongly too.",
                command("gpudoctor check --deep deep"),
                *(
                    (command("sudo nvidia-smi -i {:number} -q -d ECC,ROW_REMAPPER,CLOCK,TEMPERATURE", gpu.index),)
                    if gpu
                    else ()
                ),
                *((command("sudo dcgmi diag -r 3 -i {:number}", gpu.index),) if gpu else ()),
            ),
            gpus=(gpu.index,) if gpu else (),
        )
    if failed:
        _ = missing(f"CUDA smoke test {failed}", "it failed before its result could be compared").value
