"""CUDA_LAUNCH_BLOCKING=1 is set.

Why it matters: each kernel launch then waits for the kernel to end. That finds the line of a CUDA error, and it takes
away the overlap of Python, kernels, copies and communication that training speed rests on.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command

VARIABLE = "CUDA_LAUNCH_BLOCKING"


@check("cuda-launch-blocking", title="CUDA kernels are launched without waiting")
def cuda_launch_blocking(machine: Snapshot) -> Problems:
    environment, gpus = machine.environment, machine.nvidia.gpus
    value = environment.value.get(VARIABLE, "")
    if not gpus.value or value.strip() in ("", "0"):
        return
    yield Problem(
        severity="warning",
        summary=f"{VARIABLE}={value} is set; training wants it unset",
        meaning="Every kernel launch waits for its end, so steps take longer, small kernels several times so.",
        evidence=(environment,),
        fix=Fix.of(
            "Unset it when the error it was set for is found; look for it in the job script and the container's image.",
            command("unset {:variable}", VARIABLE),
            command("grep -n {:variable} ~/.bashrc ~/.profile /etc/environment", VARIABLE),
        ),
    )
