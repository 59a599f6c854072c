"""Environment variables of a profiler or debugger are still set.

Why it matters: they load a tool into every CUDA process, write traces, or stop the process for a debugger. Training
runs slower, fills the disk, or waits for ever at its first error.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command

VARIABLES = {
    # From the list of variables that DCGM warns of (gpud has the same), without those that do nothing by themselves
    "CUDA_INJECTION32_PATH": "loads a tool into every CUDA process",
    "CUDA_INJECTION64_PATH": "loads a tool into every CUDA process",
    "CUDA_PROFILE": "profiles every CUDA process",
    "COMPUTE_PROFILE": "profiles every CUDA process",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "writes the GPU's memory to disk when a kernel fails",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "has a failed kernel wait for a debugger",
    # CUDA Programming Guide, environment variables: compile everything anew from PTX
    "CUDA_FORCE_PTX_JIT": "has the driver compile every kernel anew",
    "CUDA_CACHE_DISABLE": "throws compiled kernels away after each process",
    # torch's documentation: for memory debuggers
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "takes torch's allocator away, so that every tensor asks the driver",
}
OFF = ("", "0", "none")


@check("cuda-debugging-left-on", title="No CUDA debugging or profiling variable is left set")
def cuda_debugging_left_on(machine: Snapshot) -> Problems:
    environment, gpus = machine.environment, machine.nvidia.gpus
    left = [name for name in VARIABLES if environment.value.get(name, "").strip() not in OFF]
    if not gpus.value or not left:
        return
    yield Problem(
        severity="warning",
        summary=", ".join(f"{name}={environment.value[name]}" for name in left) + " in the environment",
        meaning="; ".join(f"{name} {VARIABLES[name]}" for name in left) + ".",
        evidence=(environment,),
        fix=Fix(
            "Unset what is not wanted in this run; look for it in the job script and the container's image.",
            commands=(command("unset {:variables}", left),),
        ),
    )
