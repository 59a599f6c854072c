"""torchvision, torchaudio or xformers is made for another torch than the one installed.

Why it matters: these packages hold code compiled against one torch. With another, the import fails with "undefined
symbol" or "operator torchvision::nms does not exist", or a call ends the process.
"""

import re

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check
from gpudoctor.command import is_a
from gpudoctor.knowledge.pytorch.torch_wheels import INDEX_URL, pip


@check("torch-mixed-versions", title="torch's companions are made for this torch")
def torch_mixed_versions(machine: Snapshot) -> Problems:
    files, pins, packages = machine.training.torch_files, machine.training.torch_pins, machine.training.packages
    version, _, build = files.value.version.partition("+")
    for name, wanted in sorted(pins.value.items()):
        own = packages.value.get(name, "")
        made_for = wanted.partition("+")[0]
        other = own.partition("+")[2]
        if made_for != version:
            summary = f"{name} {own} is made for torch {wanted}; torch {files.value.version} is installed"
        elif other.startswith("cu") and build.startswith("cu") and other[:4] != build[:4]:
            # "cu128" and "cu130": torchvision refuses a torch of another CUDA major version
            summary = f"{name} {own} is built for another CUDA than torch {files.value.version}"
        else:
            continue
        yield Problem(
            severity="warning",
            summary=summary,
            meaning=f"`import {name}` or its compiled operators fail.",
            evidence=(pins, files, packages),
            fix=_for_the_gpus()
            if _wants_another_torch(machine)
            else Fix(
                f"Install the {name} that fits this torch; pip check shows what else does not fit.",
                commands=(*upgrade(machine, name, version, build), pip(machine, "check")),
            ),
        )


def _wants_another_torch(machine: Snapshot) -> bool:
    """A torch for the CPU beside NVIDIA GPUs: torch-cpu-only replaces it, and its companions with it."""
    build = machine.training.torch_files.value
    return not (build.cuda or build.hip or build.xpu) and bool(machine.nvidia.gpus.value_or(()))


def _for_the_gpus() -> Fix:
    return Fix(
        "The line for torch (torch-cpu-only) installs the companions that fit it; a line for this torch undoes it."
    )


def upgrade(machine: Snapshot, name: str, version: str, build: str) -> tuple[Command, ...]:
    """Install the companion for the torch that is there, from the index that this torch came from.

    None for a torch that came from elsewhere (a build of one's own, NVIDIA's containers): pip would replace it.
    """
    if build and not re.fullmatch(r"cu\d+|cpu|xpu|rocm[\d.]+", build):
        return ()
    if not is_a("version", version) or not is_a("package", name):
        return ()
    index = ("--index-url", f"{INDEX_URL}{build}") if build else ()
    return (pip(machine, "install", "--upgrade", "--force-reinstall", f"torch=={version}", name, *index),)
