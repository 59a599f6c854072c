"""The toolkit's stub libcuda is loaded in place of the driver's.

Why it matters: the stubs folder of the CUDA toolkit holds an empty libcuda for linking on machines without a driver.
When LD_LIBRARY_PATH puts that folder first, CUDA does not start.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus import cuda_errors


@check("cuda-stub-library", title="CUDA programs load the driver's own libcuda")
def cuda_stub_library(machine: Snapshot) -> Problems:
    # A cuda-compat libcuda is another matter, and cuda-compat-on-path judges it.
    answer = machine.cuda.visible
    library, error = answer.value.library, answer.value.error
    folder = library.rpartition("/")[0]
    if "stubs" not in folder.split("/") and error != cuda_errors.STUB_LIBRARY:
        return
    path = [part for part in machine.environment.value.get("LD_LIBRARY_PATH", "").split(":") if part]
    rest = [part for part in path if part.rstrip("/") != folder]
    through_path = len(rest) < len(path)
    yield Problem(
        severity="error",
        summary=f"CUDA programs load {library or 'a stub libcuda'}, the toolkit's stub for linking"
        + (f": cuInit error {error}" if error else ""),
        meaning="torch.cuda.is_available() is False.",
        evidence=(answer, *((machine.environment,) if through_path else ())),
        fix=Fix(
            f"Take {folder} out of LD_LIBRARY_PATH, in the shell's start files or the container image too."
            if through_path
            else f"Find what puts {folder or 'it'} on the loader's path (/etc/ld.so.conf.d, an rpath), and take it "
            f"out.",
            commands=(command("export LD_LIBRARY_PATH={:value}", ":".join(rest)),)
            if through_path
            else (
                command("ldconfig -p | grep libcuda.so"),
                command("grep -rs stubs /etc/ld.so.conf /etc/ld.so.conf.d"),
            ),
        ),
    )
