"""torch is built for a newer CUDA minor version than the driver serves.

Why it matters: it works, by CUDA's minor-version compatibility, but with limits: PTX of the newer version cannot be
compiled by this driver ("the provided PTX was compiled with an unsupported toolchain"), which meets extensions and
kernels compiled at run time, and features new in that minor version are missing.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.cuda_versions import TOOLKIT_DRIVER, runs, shown
from gpudoctor.knowledge.pytorch.torch_wheels import cuda_of


@check("cuda-minor-newer-than-driver", title="The driver serves torch's CUDA minor version in full")
def cuda_minor_newer_than_driver(machine: Snapshot) -> Problems:
    files, serves, driver = machine.training.torch_files, machine.nvidia.cuda_version, machine.nvidia.driver_version
    cuda = cuda_of(files.value.cuda)
    if cuda is None or cuda[0] != serves.value[0] or cuda <= serves.value or not runs(driver.value, cuda):
        return
    answer = machine.cuda.visible.value_or(None)
    if answer is not None and (answer.driver_version or (0, 0)) >= cuda:
        return  # a compatibility package serves the rest
    wanted = TOOLKIT_DRIVER.get(cuda)
    yield Problem(
        severity="info",
        summary=f"torch {files.value.version} is built for CUDA {shown(cuda)}; driver {driver.value} serves "
        f"{shown(serves.value)}",
        meaning="torch itself runs; code that the driver compiles from PTX at run time may be refused.",
        evidence=(files, serves, driver),
        fix=Fix(
            f"Update the driver to {shown(wanted)} or newer when an extension complains of PTX."
            if wanted
            else f"Update the driver to one that serves CUDA {shown(cuda)} when an extension complains of PTX.",
            commands=(command("nvidia-smi --query-gpu=index,driver_version --format=csv"),),
        ),
    )
