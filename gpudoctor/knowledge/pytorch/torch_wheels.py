"""Which torch build fits a machine's driver and GPUs, and the line that installs it.

Source: torch's release compatibility matrix and arch lists, read from its wheels and from PYTORCH_RELEASES_CODE_CC of
torch 2.13 to 2.15 (torch/cuda/__init__.py). The toolkit (nvcc) plays no role: a wheel brings its own CUDA runtime.
"""

from typing import NamedTuple

from gpudoctor.command import NONE, Command, command, is_a
from gpudoctor.knowledge.pytorch.cuda_versions import OLDEST_DRIVER, minor, served_by, shown
from gpudoctor.knowledge.pytorch.gpu_code import Capability, any_runs_on
from gpudoctor.snapshot import Snapshot

INDEX_URL = "https://download.pytorch.org/whl/"
OPTIONS = frozenset({"-y", "--upgrade", "--force-reinstall", "--index-url"})
COMPANIONS = ("torchvision", "torchaudio")
"""Compiled against one torch: they are exchanged along with it."""


class Wheels(NamedTuple):
    """One of torch's package indexes: the newest torch in it, and what that needs."""

    name: str
    cuda: tuple[int, int]
    serves: tuple[int, int]
    """Newest CUDA that the driver must at least serve."""
    architectures: dict[str, tuple[str, ...]]


NEWEST_DRIVER = (99, 0)
"""Serves every CUDA: asks for wheels by the GPUs alone."""

_CUDA_13 = {
    "x86_64": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    "aarch64": ("sm_80", "sm_90", "sm_100", "sm_110", "sm_120"),
}

# The one that serves most first: cu130 and cu132 hold the same code; cu132 needs a newer driver, and serves Orin too.
# 2.13 has cu129 and no cu128 any more, 2.14 neither. cu126 runs on every driver of CUDA 12 by minor-version
# compatibility and holds machine code for all its GPUs, so nothing is left to PTX; cu121 and cu124 would only bring
# an older torch.
WHEELS = (
    Wheels(
        "cu130",
        (13, 0),
        (13, 0),
        _CUDA_13,
    ),
    Wheels("cu132", (13, 2), (13, 2), _CUDA_13),
    Wheels(
        "cu129",
        (12, 9),
        (12, 9),
        {
            "x86_64": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
            "aarch64": ("sm_80", "sm_90", "sm_100", "sm_120"),
        },
    ),
    Wheels("cu128", (12, 8), (12, 8), {"x86_64": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")}),
    Wheels(
        "cu126",
        (12, 6),
        (12, 0),
        {
            "x86_64": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
            "aarch64": ("sm_80", "sm_90"),
        },
    ),
    Wheels("cu118", (11, 8), (11, 0), {"x86_64": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")}),
)


def fitting(
    driver: tuple[int, int], capabilities: tuple[Capability, ...], architecture: str = "x86_64"
) -> Wheels | None:
    """The newest wheels that run on a driver serving this CUDA and on all these GPUs; None when there are none."""
    for wheels in WHEELS:
        code = wheels.architectures.get(architecture, ())
        if driver >= wheels.serves and all(any_runs_on(code, capability, wheels.cuda) for capability in capabilities):
            return wheels
    return None


def fitting_machine(machine: Snapshot) -> Wheels | None:
    """`fitting` for a machine; None also when its driver could not be read. Serves fixes, never a verdict."""
    serves = machine.nvidia.cuda_version.value_or(None) or served_by(machine.nvidia.driver_version.value_or(""))
    return fitting(serves, *hardware(machine)) if serves else None


def hardware(machine: Snapshot) -> tuple[tuple[Capability, ...], str]:
    """The capabilities of a machine's GPUs, those that were read, and its architecture."""
    known = [gpu.compute_capability.value_or(None) for gpu in machine.nvidia.gpus.value_or(())]
    capabilities = tuple(capability for capability in known if capability is not None)
    return capabilities, machine.host.architecture.value_or("x86_64")


def interpreter(machine: Snapshot) -> str:
    """The training interpreter, for a line to paste."""
    return machine.training.python.value_or("python3")


def install(machine: Snapshot, wheels: Wheels) -> Command:
    """The line that puts torch (and its companions, where installed) from an index into the training interpreter.

    Forced: pip takes 2.13.0+cpu for the wanted 2.13.0. Interpreters without pip are uv's.
    """
    packages = machine.training.packages.value_or({"pip": ""})
    names = ["torch", *(name for name in COMPANIONS if name in packages)]
    python, source = interpreter(machine), f"{INDEX_URL}{wheels.name}"
    if "pip" in packages:
        return command("{:python} -m pip install --force-reinstall {:names} --index-url {:name}", python, names, source)
    return command("uv pip install --python {:path} --reinstall {:names} --index-url {:name}", python, names, source)


def pip(machine: Snapshot, *arguments: str) -> Command:
    """A pip command ("uninstall", "-y", "pynvml") for the training interpreter, with uv where that has no pip."""
    if not all(argument in OPTIONS or is_a("name", argument) for argument in arguments):
        return NONE
    if "pip" in machine.training.packages.value_or({"pip": ""}):
        return command("{:python} -m pip {:arguments}", interpreter(machine), arguments)
    understood = [argument for argument in arguments if argument != "-y"]
    return command("uv pip {:arguments} --python {:path}", understood, interpreter(machine))


def advice(machine: Snapshot) -> tuple[str, tuple[Command, ...]]:
    """(sentence, lines) that bring a torch which fits; says what stands in the way when none does."""
    wheels = fitting_machine(machine)
    if wheels is not None:
        return f"Install torch for CUDA {shown(wheels.cuda)}, which fits this driver and GPU.", (
            install(machine, wheels),
        )
    driver = machine.nvidia.driver_version
    if not driver.is_read:
        return "Install a torch build that fits the driver; https://pytorch.org/get-started/locally/ lists them.", ()
    after_update = fitting(NEWEST_DRIVER, *hardware(machine))
    if after_update is None:
        return (
            "No torch wheel runs on all these GPUs: hide some with CUDA_VISIBLE_DEVICES, or build torch for them.",
            (),
        )
    # Not the newest driver there is: older GPUs lose their support in it.
    floor = shown(OLDEST_DRIVER[after_update.cuda[0]])
    return (
        f"No torch wheel fits driver {driver.value} and these GPUs: update the driver to {floor} or newer "
        f"(on the host, where this is a container), then install torch for CUDA {shown(after_update.cuda)}.",
        (install(machine, after_update),),
    )


def cuda_of(build: str | None) -> tuple[int, int] | None:
    """The CUDA version of a torch build (torch.version.cuda), as (major, minor)."""
    return minor(build) if build else None
