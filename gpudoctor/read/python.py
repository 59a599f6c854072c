"""The training interpreter's replies -> the snapshot's `training` section.

Every way in which a worker can fail to answer (deadline, signal, exception, something that is no Python at all)
becomes a `Probe`, which the checks judge, and the reason of the facts that are missing for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gpudoctor.active import MARK, ChildReply, messages, signal_name
from gpudoctor.named import VariableName, told
from gpudoctor.read.children import ExamineWish
from gpudoctor.snapshot import (
    Library,
    Probe,
    Reading,
    TorchFacts,
    TorchFiles,
    Training,
    absent,
    missing,
    read,
)
from gpudoctor.snapshot.training import Packages

T = TypeVar("T")

FILES = "worker python_facts"
IMPORT = "worker torch_facts"
NO_TORCH = "this interpreter has no torch"
SHOWN_OF_GARBAGE = 60  # characters: enough to recognise a shell's message or another program

LIBRARY_PACKAGES = {"nccl": "nvidia-nccl-cu", "cudnn": "nvidia-cudnn-cu"}
"""The distributions that bring a library; CUDA's major version ends their names."""


def assemble(wish: ExamineWish, static: ChildReply, torch: ChildReply | None) -> Training:
    """What both workers said. `torch` is None when torch was not to be imported. Never raises for what they said."""
    said = messages(static.output)
    probe = how_it_ended(static, said, wish.timeout)
    facts = merged(said)
    unread = why_missing(FILES, probe)
    packages = converted(FILES, facts, "packages", Packages, unread)
    return Training(
        python=read("choice of the training interpreter", wish.interpreter.path),
        chosen_by=read("choice of the training interpreter", wish.interpreter.chosen_by),
        python_version=converted("sys.version", facts, "python", str, unread),
        python_probe=read(FILES, probe),
        packages=packages,
        torch_pins=converted("METADATA of installed distributions", facts, "torch_pins", Packages, unread),
        torch_files=torch_files(facts, unread),
        libraries=libraries(facts, library_versions(said), packages.value_or({}), unread),
        **imported(wish, facts, torch, packages.value_or({})),
    )


def imported(
    wish: ExamineWish, static: Mapping[str, Any], reply: ChildReply | None, packages: Mapping[str, str]
) -> dict[str, Reading[Any]]:
    """The fields `torch` and `torch_probe`."""
    if reply is None or not wish.torch:
        return both(missing(IMPORT, "torch was not imported (--no-torch)", "not-asked"))
    said = messages(reply.output)
    facts = merged(said)
    if static.get("no_torch") or facts.get("no_torch"):
        return both(absent("import torch", NO_TORCH))
    if "python" not in static and "python" not in facts:
        return both(missing(IMPORT, f"{wish.interpreter.path} did not answer as a Python interpreter"))
    probe = how_it_ended(reply, said, wish.timeout)
    if probe.outcome != "answered":
        return {"torch": why_missing(IMPORT, probe), "torch_probe": read(IMPORT, probe)}
    collected = {"xla_version": packages.get("torch-xla", "")}
    for message in said:
        part = message.get("facts")
        if isinstance(part, dict):
            collected |= part
    try:
        return {
            "torch": read("import torch", msgspec.convert(collected, TorchFacts)),
            "torch_probe": read(IMPORT, probe),
        }
    except msgspec.ValidationError as error:
        unexpected = f"facts of an unexpected form: {told(error, collected)}"
        unread = Probe("unread", "import torch", unexpected, wish.timeout)
        return {"torch": why_missing(IMPORT, unread), "torch_probe": read(IMPORT, unread)}


def both(reading: Reading[Any]) -> dict[str, Reading[Any]]:
    return {"torch": reading, "torch_probe": reading}


def merged(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All that a worker said as one dict; what may be said several times is kept by its first key's last value."""
    return {key: value for message in said for key, value in message.items()}


def how_it_ended(reply: ChildReply, said: Sequence[Mapping[str, Any]], timeout: float) -> Probe:
    """A worker's end. One that said `complete` has answered, however its last, optional step went."""
    step = "the start of Python"
    for message in said:
        if "complete" in message:
            return Probe(timeout_seconds=timeout)
        if "unread" in message:
            return Probe("unread", step, str(message["unread"]).rstrip("."), timeout)
        if "raised" in message:
            return Probe("raised", step, str(message["raised"]).rstrip("."), timeout)
        step = str(message.get("doing", step))
    if reply.timed_out:
        return Probe("hung", step, reply.failure if reply.stuck else "", timeout)
    if reply.return_code is not None and reply.return_code < 0:
        return Probe("crashed", step, f"killed by {signal_name(-reply.return_code)}", timeout)
    if reply.return_code and (said or not reply.output.strip()):
        return Probe("crashed", step, f"{last_line(reply)} (exit status {reply.return_code})", timeout)
    return Probe("garbled", step, beginning(reply), timeout)


def last_line(reply: ChildReply) -> str:
    """Python puts the exception on the last line of standard error."""
    lines = reply.errors.strip().splitlines()
    return lines[-1].strip()[:300].rstrip(".") if lines else "no message"


def beginning(reply: ChildReply) -> str:
    """The beginning of what a process wrote that is no answer, without control characters."""
    foreign = b" ".join(line for line in reply.output[:65536].split(b"\n") if not line.startswith(MARK))
    text = " ".join(foreign.decode("utf-8", "replace").split()) or " ".join(reply.errors.split())
    shown = "".join(character for character in text if character.isprintable())[:SHOWN_OF_GARBAGE]
    return repr(shown) if shown else "nothing"


def describe(probe: Probe) -> str:
    """Why a probe's facts are missing, as a phrase."""
    if probe.outcome == "hung":
        stuck = f" ({probe.detail})" if probe.detail else ""
        return f"{probe.step} did not return within {probe.timeout_seconds:g} s{stuck}"
    if probe.outcome == "garbled":
        return f"answered with something else than gpudoctor's worker: {probe.detail}"
    if probe.outcome == "unread":
        return f"gpudoctor does not know how this torch answers: {probe.step}: {probe.detail}"
    return f"{probe.step}: {probe.detail}"


def why_missing(source: str, probe: Probe) -> Reading[Any]:
    """The reading of a fact that a worker owed and did not tell."""
    if probe.outcome == "answered":
        return missing(source, "the worker did not say")
    return missing(source, describe(probe), "timeout" if probe.outcome == "hung" else "failed")


def converted(source: str, facts: Mapping[str, Any], name: str, form: type[T], unread: Reading[Any]) -> Reading[T]:
    """One fact in the form that the snapshot wants."""
    if name not in facts:
        return unread
    try:
        return read(source, msgspec.convert(facts[name], form))
    except msgspec.ValidationError as error:
        return missing(source, f"the worker answered in an unexpected form: {told(error, facts[name])}")


def torch_files(facts: Mapping[str, Any], unread: Reading[Any]) -> Reading[TorchFiles]:
    if facts.get("no_torch"):
        return absent("sys.path of the training interpreter", NO_TORCH)
    if "torch_broken" in facts:
        return missing("torch/version.py", f"torch is damaged: {facts['torch_broken']}")
    return converted("torch/version.py", facts, "torch_files", TorchFiles, unread)


def library_versions(said: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Path -> version, of the libraries that were loaded and asked."""
    pairs = [message.get("library_version") for message in said]
    return {str(pair[0]): str(pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2}


def libraries(
    facts: Mapping[str, Any], asked: Mapping[str, str], packages: Mapping[str, str], unread: Reading[Any]
) -> Reading[tuple[Library, ...]]:
    """The libraries, each with the version that could be told: from its name, from itself, or from its package."""
    if "no_libraries" in facts:
        return absent(FILES, str(facts["no_libraries"] or "no reason was given"))
    reading: Reading[tuple[Library, ...]] = converted(FILES, facts, "libraries", tuple[Library, ...], unread)
    if not reading.is_read:
        return reading
    return read(
        reading.source,
        tuple(
            msgspec.structs.replace(
                library, version=library.version or asked.get(library.path, "") or packaged(library, packages)
            )
            for library in reading.value
        ),
    )


def nccl_names(wish: ExamineWish, static: ChildReply) -> Reading[tuple[str, ...]]:
    """network.nccl_names: the NCCL_* names inside the libnccl that the training interpreter's torch would load."""
    said = messages(static.output)
    facts = merged(said)
    if facts.get("no_nccl") or "no_libraries" in facts:
        return absent(FILES, str(facts.get("no_libraries") or "no libnccl.so.2 where the loader would look"))
    for name in ("nccl_names", "nccl_names_unread"):
        pair = facts.get(name)
        if isinstance(pair, list) and len(pair) == 2:
            source = f"strings of {pair[0]}"
            if name == "nccl_names":
                return converted(source, {name: pair[1]}, name, tuple[VariableName, ...], missing(source, "not read"))
            return missing(source, str(pair[1]))
    return why_missing(FILES, how_it_ended(static, said, wish.timeout))


def packaged(library: Library, packages: Mapping[str, str]) -> str:
    """The version of the distribution that a library in site-packages belongs to; empty when several could be it."""
    prefix = LIBRARY_PACKAGES.get(library.name)
    if library.origin != "package" or prefix is None:
        return ""
    versions = {version for name, version in packages.items() if name.startswith(prefix)}
    return versions.pop() if len(versions) == 1 else ""
