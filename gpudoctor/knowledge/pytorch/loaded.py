"""Which copy of a shared library torch gets, and how to take another one out of its way."""

import posixpath
from typing import Literal, NamedTuple

from gpudoctor.command import Command, command
from gpudoctor.snapshot import Library, Snapshot

BUNDLED = ("torch", "package")
FROM_ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD")


class Shadowing(NamedTuple):
    """A copy that the environment puts before the one torch was installed with."""

    winner: Library
    bundled: Library
    is_certain: bool
    """torch was seen with it loaded; otherwise the loader's order says so."""


def first(machine: Snapshot, name: Literal["nccl", "cudnn", "cuda"]) -> Library | None:
    """The copy that comes first in the loader's order. Raises `NotRead`."""
    return next((library for library in machine.training.libraries.value if library.name == name), None)


def shadowing(machine: Snapshot, name: Literal["nccl", "cudnn"]) -> Shadowing | None:
    """The foreign copy that torch gets instead of its own, or None. Raises `NotRead`.

    What a running torch has loaded decides, for its libraries may carry an RPATH, which the loader heeds before
    LD_LIBRARY_PATH. Only when torch could not be imported does the order of search speak.
    """
    copies = [library for library in machine.training.libraries.value if library.name == name]
    bundled = [library for library in copies if library.origin in BUNDLED]
    probe = machine.training.torch_probe.value
    if not bundled:
        return None
    if probe.outcome == "answered":
        path = machine.training.torch.value.loaded_libraries.get(name)
        winner = next((library for library in copies if library.path == path), None)
    else:
        winner = copies[0]
    if winner is None or winner.origin not in FROM_ENVIRONMENT:
        return None
    return Shadowing(winner, bundled[0], probe.outcome == "answered")


def take_out(machine: Snapshot, library: Library) -> tuple[Command, ...]:
    """The line that takes a library's folder out of LD_LIBRARY_PATH, or its file out of LD_PRELOAD, of this shell."""
    variable = library.origin
    value = machine.environment.value_or({}).get(variable)
    if value is None:
        return ()
    place = library.found_as or library.path
    unwanted = place if variable == "LD_PRELOAD" else posixpath.normpath(posixpath.dirname(place))
    entries = value.replace(" ", ":").split(":") if variable == "LD_PRELOAD" else value.split(":")
    kept = [entry for entry in entries if entry and posixpath.normpath(entry) != posixpath.normpath(unwanted)]
    if not kept:
        return (command("unset {:variable}", variable),)
    return (command("export {:variable}={:value}", variable, ":".join(kept)),)


def lies_in(library: Library, folder: str) -> bool:
    """Whether a folder of this name is part of the library's path: "stubs", "compat"."""
    return any(folder in path.split("/")[:-1] for path in (library.path, library.found_as))
