"""The NVIDIA driver is too old for the CUDA version that torch is built for.

Why it matters: CUDA initialisation fails with "The NVIDIA driver on your system is too old", and torch finds no GPU.
Every CUDA major version has an oldest driver: 450.80.02 for 11.x, 525 for 12.x, 580 for 13.x. A container brings its
own torch but always uses the host's driver.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.pytorch.cuda_versions import OLDEST_DRIVER, runs, served_by, shown
from gpudoctor.knowledge.pytorch.torch_wheels import advice, cuda_of, fitting_machine
from gpudoctor.snapshot import missing


@check("driver-too-old-for-torch", title="The driver is new enough for torch's CUDA")
def driver_too_old_for_torch(machine: Snapshot) -> Problems:
    files, driver = machine.training.torch_files, machine.nvidia.driver_version
    cuda = cuda_of(files.value.cuda)
    if cuda is None:
        return
    fits = runs(driver.value, cuda)
    if fits is None:
        _ = missing("driver table", f"which driver CUDA {shown(cuda)} needs is not known to this gpudoctor").value
    if fits:
        return
    if served_by_compatibility_package(machine, cuda):
        return
    floor = shown(OLDEST_DRIVER[cuda[0]])
    wheels = fitting_machine(machine)
    text, lines = advice(machine)
    if wheels is not None:
        text = (
            f"Update the driver to {floor} or newer (on the host, where this is a container), or install torch for "
            f"CUDA {shown(wheels.cuda)}, which the old one serves."
        )
    serves = machine.nvidia.cuda_version.value_or(None) or served_by(driver.value)
    ceiling = f" (it serves CUDA up to {shown(serves)})" if serves else ""
    yield Problem(
        severity="error",
        summary=f"torch {files.value.version} needs driver {floor} or newer for CUDA {shown(cuda)}; "
        f"{driver.value} is installed{ceiling}",
        meaning='torch finds no GPU: "The NVIDIA driver on your system is too old".',
        evidence=(files, driver, machine.nvidia.cuda_version),
        fix=Fix(text, commands=lines),
    )


def served_by_compatibility_package(machine: Snapshot, cuda: tuple[int, int]) -> bool:
    """Whether a newer libcuda (cuda-compat) makes up for the old driver, or torch was seen working anyhow."""
    facts, answer = machine.training.torch.value_or(None), machine.cuda.visible.value_or(None)
    if facts is not None and facts.cuda_available:
        return True
    return answer is not None and answer.error == 0 and (answer.driver_version or (0, 0)) >= cuda
