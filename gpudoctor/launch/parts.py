"""What is written alike for several launchers: names made from the plan, and which variables hold elsewhere."""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from gpudoctor.launch.plan import EnvVariable, LaunchPlan
from gpudoctor.lazy import lazy_re

OF_THESE_MACHINES = lazy_re(r"_SOCKET_IFNAME$|^NCCL_IB_(HCA|GID_INDEX|MERGE_NICS)$|_FILE$|^CUDA_VISIBLE_DEVICES$|_HCA$")
"""Variables that name interfaces, adapters, devices or files of a machine: in a pod or a cloud they are others."""

USUAL_GPUS = 8
"""GPUs of most nodes that train; marked in the file where the user did not say a number."""


def beside(python: str, command: str) -> str:
    """A console script as the interpreter's environment has it: beside it, or on PATH."""
    return str(PurePosixPath(python).parent / command) if "/" in python else command


def elsewhere(python: str) -> str:
    """The interpreter in an image or on a cloud's machine: a path of this machine means nothing there."""
    return "python3" if "/" in python else python


def is_module(plan: LaunchPlan) -> bool:
    """Whether the program is `-m module`."""
    return len(plan.program) > 1 and plan.program[0] == "-m"


def target(plan: LaunchPlan) -> str:
    """The script's path, or the module's name."""
    return plan.program[1] if is_module(plan) else plan.program[0]


def arguments(plan: LaunchPlan) -> tuple[str, ...]:
    """The script's own."""
    return plan.program[2:] if is_module(plan) else plan.program[1:]


def job_name(plan: LaunchPlan) -> str:
    """A name for the job after the script: letters, digits and hyphens, at most 40, a letter first (RFC 1123)."""
    stem = PurePosixPath(target(plan)).name.rpartition(".")[2] if is_module(plan) else PurePosixPath(target(plan)).stem
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower(), flags=re.ASCII).strip("-")[:40].strip("-")
    return name if name[:1].isalpha() else f"train-{name}".rstrip("-")


def portable(variables: Iterable[EnvVariable]) -> tuple[EnvVariable, ...]:
    """Those that hold on machines other than these."""
    return tuple(variable for variable in variables if not OF_THESE_MACHINES.search(variable.name))


def left_out(variables: Iterable[EnvVariable], where: str) -> tuple[str, ...]:
    """A note on those that do not."""
    names = [variable.name for variable in variables if OF_THESE_MACHINES.search(variable.name)]
    return (
        (f"{', '.join(names)} left out: interfaces and adapters have other names {where}; gpudoctor env there tells.",)
        if names
        else ()
    )


def on_gloo(arguments: Sequence[str]) -> bool:
    """Whether options of nccl-test ask for gloo, which needs no GPU. The last one counts, as for the command itself."""
    backend = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == "--backend":
            backend = following
        elif word.startswith("--backend="):
            backend = word.partition("=")[2]
    return backend == "gloo"
