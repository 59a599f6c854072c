"""The CUDA toolkit's stub libcuda is found before the driver's.

Why it matters: the stub exists for linking on machines without a driver; each of its functions fails. torch then
reports "CUDA driver is a stub library" (error 34) or that there is no GPU.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.loaded import FROM_ENVIRONMENT, first, lies_in, take_out


@check("cuda-stubs-on-path", title="No stub of libcuda is on the library path")
def cuda_stubs_on_path(machine: Snapshot) -> Problems:
    library = first(machine, "cuda")
    if library is None or not lies_in(library, "stubs"):
        return
    place = library.found_as or library.path
    named = library.origin in FROM_ENVIRONMENT
    yield Problem(
        severity="error",
        summary=f"the loader finds the stub {place} first"
        + (f", through {library.origin}" if named else ", through its cache"),
        meaning='CUDA fails with "CUDA driver is a stub library" (error 34), or finds no GPU.',
        evidence=(machine.training.libraries, machine.environment),
        fix=Fix(
            f"Take the stubs folder out of {library.origin}."
            if named
            else "Take the stubs folder out of /etc/ld.so.conf.d and rebuild the loader's cache.",
            commands=take_out(machine, library)
            if named
            else (command("grep -rn stubs /etc/ld.so.conf /etc/ld.so.conf.d"), command("sudo ldconfig")),
        ),
    )
