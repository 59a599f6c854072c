"""Starts every child process of an examination. Imports little: the patient's `import torch` should begin first."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.active import Child, own_module, start, worker
from gpudoctor.read.interpreter import Interpreter


class Wish(NamedTuple):
    """What the user asked to be examined."""

    interpreter: Interpreter
    torch: bool = True
    """Import torch in the training interpreter."""
    deep: bool = False
    """Run the active tests too."""
    timeout: float = 10.0
    """Deadline of every child, in seconds."""


def launch(wish: Wish) -> list[Child]:
    """Start all readers, the slowest first. Raises `OSError` when the training interpreter cannot be run.

    A caller that gets the list owes each child to `active.gather`.
    """
    children: list[Child] = []
    try:
        python = wish.interpreter.path
        if wish.torch:
            children.append(start("torch", worker(python, "torch_facts"), timeout=wish.timeout))
        children.append(start("nvidia", own_module("gpudoctor.read.nvidia"), timeout=wish.timeout))
        # The local readers get the deadline told: a wait of theirs must end before it, to say what was waited for.
        local = own_module("gpudoctor.read.local", str(wish.timeout))
        children.append(start("local", local, timeout=wish.timeout))
        children.append(start("python", worker(python, "python_facts"), timeout=wish.timeout))
        children.append(start("cuda visible", own_module("gpudoctor.read.libcuda"), timeout=wish.timeout))
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            everything = without(os.environ, "CUDA_VISIBLE_DEVICES")
            command = own_module("gpudoctor.read.libcuda")
            children.append(start("cuda all", command, environment=everything, timeout=wish.timeout))
    except BaseException:
        for child in children:
            child.end()
        raise
    return children


def without(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """A copy of the environment that lacks one variable."""
    return {key: value for key, value in environment.items() if key != name}
