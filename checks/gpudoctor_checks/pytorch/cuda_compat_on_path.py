"""A forward-compatibility libcuda (cuda-compat) is on the library path, and CUDA does not start with it.

Why it matters: the package replaces the driver's libcuda with a newer one. That works on data-centre GPUs with a driver
of certain branches only; on GeForce cards cuInit fails with error 804, and with a driver newer than the package with
803. Many container images carry it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.cuda_errors import explain
from gpudoctor.knowledge.gpus.gpu_models import is_consumer
from gpudoctor.knowledge.pytorch.loaded import first, lies_in, take_out


@check("cuda-compat-on-path", title="No unsuitable cuda-compat library is on the path")
def cuda_compat_on_path(machine: Snapshot) -> Problems:
    library = first(machine, "cuda")
    gpus, answer = machine.nvidia.gpus, machine.cuda.visible
    if library is None or not lies_in(library, "compat") or not gpus.value:
        return
    if answer.value.error == 0:
        return  # it does its work
    known = explain(answer.value.error, answer.value.error_name)
    driver = machine.nvidia.driver_version.value_or("of unknown version")
    consumer = sorted({gpu.name.value for gpu in gpus.value if gpu.name.is_read and is_consumer(gpu.name.value)})
    why = f"; {consumer[0]} does not support it" if consumer else ""
    yield Problem(
        severity="error",
        summary=f"cuda-compat {library.version} at {library.found_as or library.path} comes before libcuda of driver "
        f"{driver}{why}; cuInit gives {known.name}",
        meaning="No program can use CUDA in this environment.",
        evidence=(answer, machine.training.libraries, machine.nvidia.driver_version),
        fix=Fix(
            "Take the compat folder out of the library path; a newer driver, or torch for an older CUDA, does without.",
            commands=(*take_out(machine, library), command("ldconfig -p | grep libcuda.so.1")),
        ),
    )
