"""A libcuda that is not the driver's own is loaded first.

Why it matters: the toolkit's stubs folder holds an empty libcuda for linking, and a cuda-compat folder one for another
driver version. When LD_LIBRARY_PATH puts such a folder first, CUDA does not start.
"""

import shlex
from collections.abc import Iterator

from gpudoctor.check import Fix, Problem, check
from gpudoctor.knowledge import cuda_errors
from gpudoctor.snapshot import Snapshot


@check("cuda-stub-library", title="CUDA programs load the driver's own libcuda")
def cuda_stub_library(machine: Snapshot) -> Iterator[Problem]:
    answer = machine.cuda.visible
    library, error = answer.value.library, answer.value.error
    folder = library.rpartition("/")[0]
    is_stub = "stubs" in folder.split("/") or error == cuda_errors.STUB_LIBRARY
    # A cuda-compat that works is what it is made for: forward compatibility on data-center GPUs.
    is_compat = error != 0 and any(part.startswith(("compat", "cuda-compat")) for part in folder.split("/"))
    if not is_stub and not is_compat:
        return
    path = machine.environment.value.get("LD_LIBRARY_PATH", "")
    rest = [part for part in path.split(":") if part and part.rstrip("/") != folder]
    through_path = len(rest) != len([part for part in path.split(":") if part])
    kind = "the toolkit's stub for linking" if is_stub else "cuda-compat's, for another driver version"
    yield Problem(
        severity="error",
        summary=f"CUDA programs load {library or 'a stub libcuda'}, {kind}"
        + (f": cuInit error {error}" if error else ""),
        meaning="torch.cuda.is_available() is False.",
        evidence=(answer, *((machine.environment,) if through_path else ())),
        fix=Fix(
            f"Take {folder} out of LD_LIBRARY_PATH, in the shell's start files or the container image too."
            if through_path
            else f"Find what puts {folder or 'it'} on the loader's path (/etc/ld.so.conf.d, an rpath), and take it "
            f"out.",
            commands=(f"export LD_LIBRARY_PATH={shlex.quote(':'.join(rest))}",)
            if through_path
            else ("ldconfig -p | grep libcuda.so", "grep -rs -E 'stubs|compat' /etc/ld.so.conf.d"),
        ),
    )
