"""The CUDA driver library crashes while it initialises.

Why it matters: every process that uses CUDA dies with it, usually with "Segmentation fault" and no message. A library
that does not belong to this driver, or an injected one, is the usual cause.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import crashed
from gpudoctor.snapshot import require

INJECTED = ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "LD_LIBRARY_PATH")
"""Variables that put other code into a CUDA process; CUDA_INJECTION64_PATH is on DCGM's list of harmful ones."""


@check("cuda-driver-crashed", title="The CUDA driver library does not crash")
def cuda_driver_crashed(machine: Snapshot) -> Problems:
    answer = machine.cuda.visible
    if not crashed(answer):
        require(answer)  # what was not asked is not known to work
        return
    environment = machine.environment.value
    suspects = [f"{name}={environment[name]}" for name in INJECTED if environment.get(name)]
    yield Problem(
        severity="error",
        summary=f"The CUDA driver library crashes: {answer.reason}",
        meaning="A training dies in its first CUDA call, often without a message.",
        evidence=(answer, *((machine.environment,) if suspects else ())),
        fix=Fix.of(
            (f"Look at {suspects[0]} first: it puts other libraries into the process. " if suspects else "")
            + "See which libcuda is loaded, and reinstall the driver when it is the driver's own.",
            *(
                (command("env -u LD_PRELOAD -u LD_LIBRARY_PATH -u CUDA_INJECTION64_PATH nvidia-smi"),)
                if suspects
                else ()
            ),
            command("ldconfig -p | grep libcuda.so"),
            command("sudo dmesg -T | grep -iE 'segfault|nvrm' | tail -n 20"),
        ),
    )
