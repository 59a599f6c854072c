"""A device computes wrong numbers in fp16 or bf16.

Why it matters: fp32 may be right on the same device. Training in mixed precision then diverges, or learns less than it
should, and nothing says why.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.presence import read_first
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named


@check("amp-wrong-result", title="fp16 and bf16 give on every device what fp32 gives")
def amp_wrong_result(machine: Snapshot) -> Problems:
    amp = machine.active.amp
    for target in read_first(amp.value, lambda target: target.results):
        for result in target.results.value:
            if result.outcome != "wrong-result":
                continue
            gpu = gpu_tested(machine, target)
            others = [amp_result.dtype for amp_result in target.results.value if amp_result.outcome == "passed"]
            yield Problem(
                severity="error",
                summary=f"{named(target, gpu)}: {result.dtype} gives wrong results: "
                f"{result.error.rstrip('.') or 'its numbers are not those of fp32'}",
                meaning=f"Training in {result.dtype} on this device computes wrong numbers.",
                evidence=(target.results, amp),
                fix=Fix(
                    f"Train in {others[0] if others else 'fp32'} meanwhile. When fp32 is right there, the fault is in "
                    "this precision's kernels: try another torch build, and the test on another GPU of this kind.",
                    commands=(
                        command("gpudoctor amp --device {:device} --dtype {:name}", target.device, result.dtype),
                    ),
                ),
                gpus=(gpu.index,) if gpu else (),
            )
