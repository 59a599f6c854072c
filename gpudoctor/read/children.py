"""Starts every child process of an examination. Imports little: the patient's `import torch` should begin first."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.active import Child, own_module, start, worker
from gpudoctor.read.interpreter import Interpreter


class ExamineWish(NamedTuple):
    """What the user asked to be examined."""

    interpreter: Interpreter
    torch: bool = True
    """Import torch in the training interpreter."""
    deep: bool = False
    """Run the active tests too."""
    timeout: float = 10.0
    """Deadline of every child, in seconds."""


def launch(wish: ExamineWish) -> list[Child]:
    """Start all readers, the slowest first. Raises `OSError` when the training interpreter cannot be run.

    The caller owes the children to `active.gather`, or to `active.end_all`, also when this raises.
    """
    python, timeout = wish.interpreter.path, wish.timeout
    children: list[Child] = []
    if wish.torch:
        children.append(start("torch", worker(python, "torch_facts"), timeout=timeout))
    children.append(start("nvidia", own_module("gpudoctor.read.nvidia"), timeout=timeout))
    # The local readers get the deadline told: a wait of theirs must end before it, to say what was waited for.
    children.append(start("local", own_module("gpudoctor.read.local", str(timeout)), timeout=timeout))
    children.append(start("python", worker(python, "python_facts"), timeout=timeout))
    cuda = own_module("gpudoctor.read.libcuda")
    children.append(start("cuda visible", cuda, timeout=timeout))
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        everything = without(os.environ, "CUDA_VISIBLE_DEVICES")
        children.append(start("cuda all", cuda, environment=everything, timeout=timeout))
    return children


def without(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """A copy of the environment that lacks one variable."""
    return {key: value for key, value in environment.items() if key != name}
