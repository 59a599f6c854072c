"""What the training interpreter has to test: its devices, and the versions of what spells a precision."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.active import Child, Waiting, gather, start, worker
from gpudoctor.errors import CannotTell
from gpudoctor.knowledge.pytorch.cuda_versions import minor
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.read.python import assemble
from gpudoctor.read.smoke import name
from gpudoctor.snapshot import TorchFacts, Training

SPELLING = ("torch", "lightning", "pytorch-lightning", "accelerate", "deepspeed")
"""Distributions that have a word of their own for a precision."""
ALL = "all"
FIRST_AUTOCAST = (1, 10)


class NothingToTest(CannotTell):
    """torch cannot be used there; the message is one line for the user."""


class Patient(NamedTuple):
    versions: dict[str, str]
    devices: tuple[str, ...]
    why: str = ""
    """Why these devices; empty where they were named, and where they are all that torch sees."""


def look(interpreter: Interpreter, wanted: Sequence[str], timeout: float, waiting: Waiting | None = None) -> Patient:
    """Versions, and the devices: those of `wanted`, by default all GPUs that torch sees, else the CPU.

    torch is imported where its devices are asked for. Raises `NothingToTest`.
    """
    listing = not wanted or ALL in wanted
    children: list[Child] = []
    try:
        if listing:
            children.append(start("torch", worker(interpreter.path, "torch_facts"), timeout=timeout))
        children.append(start("python", worker(interpreter.path, "python_facts"), timeout=timeout))
    except OSError as error:
        for child in children:
            child.end()
        raise NothingToTest(f"{interpreter.path} cannot be run: {error.strerror or error}") from None
    replies = gather(children, waiting)
    wish = ExamineWish(interpreter, torch=listing, timeout=timeout)
    training = assemble(wish, replies["python"], replies.get("torch"))
    if training.torch_files.missing_kind == "absent":
        raise NothingToTest(f"{interpreter.path} has no torch: name the training interpreter with --python")
    version = training.torch_files.value.version if training.torch_files.is_read else ""
    if (minor(version) or FIRST_AUTOCAST) < FIRST_AUTOCAST:
        raise NothingToTest(
            f"torch {version} has no torch.autocast, which came with 1.10: its precisions are not tested"
        )
    versions = {key: value for key, value in training.packages.value_or({}).items() if key.lower() in SPELLING}
    if not listing:
        return Patient(versions, tuple(dict.fromkeys(wanted)))
    return chosen(training, wanted, versions)


def chosen(training: Training, wanted: Sequence[str], versions: dict[str, str]) -> Patient:
    """Of the devices that torch lists. Raises `NothingToTest`."""
    if not training.torch.is_read:
        raise NothingToTest(f"torch cannot be tested: {training.torch.reason} (gpudoctor check says more)")
    facts = training.torch.value
    gpus = tuple(map(name, facts.devices))
    versions = {"torch": facts.version, **versions}
    if ALL in wanted:
        return Patient(
            versions,
            tuple(dict.fromkeys((*gpus, "cpu", *(wanted_name for wanted_name in wanted if wanted_name != ALL)))),
        )
    if gpus:
        return Patient(versions, gpus)
    return Patient(versions, ("cpu",), f"no GPU is usable by this torch ({why_no_gpu(facts)}): tested on the CPU")


def why_no_gpu(facts: TorchFacts) -> str:
    """What torch itself says of it, as a phrase."""
    if facts.init_error:
        return " ".join(facts.init_error.split()).rstrip(".")
    if not (facts.cuda_built or facts.hip_version):
        return f"torch {facts.version} is built without CUDA and ROCm"
    return f"torch {facts.version} lists none"
