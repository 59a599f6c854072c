"""Runs the real readers of NVML and libcuda in real child processes on a fake machine."""

from pathlib import Path
from typing import Any

from gpudoctor import active
from gpudoctor.read import cuda, nvidia
from gpudoctor.snapshot import CudaAnswer, Gpu, Nvidia, Reading
from tests.lab.nvidia import Machine, fake_nvidia

HOST_PID_NAMESPACE = "pid:[4026531836]"
PATIENCE = 60.0
"""Deadline of children that are expected to end by themselves."""


def nvml_reply(machine: Machine, root: Path | None = None, **variables: str) -> active.ChildReply:
    """What the NVML reader's child said. `root` stands for / where it reads /proc and /sys."""
    arguments = [] if root is None else [str(root)]
    with fake_nvidia(machine, **variables) as environment:
        command = active.own_module("gpudoctor.read.nvidia", *arguments)
        return active.gather([active.start("nvidia", command, timeout=PATIENCE, environment=environment)])["nvidia"]


def nvml_of(machine: Machine, root: Path | None = None, **variables: str) -> Nvidia:
    """The snapshot's NVML section of a machine on which the reader ends by itself, without a word on stderr."""
    reply = nvml_reply(machine, root, **variables)
    assert (reply.failure, reply.errors) == ("", "")
    return nvidia.assemble(reply)


def cuda_reply(machine: Machine, **variables: str) -> active.ChildReply:
    """What the libcuda reader's child said, with environment variables."""
    with fake_nvidia(machine, **variables) as environment:
        command = active.own_module("gpudoctor.read.libcuda")
        return active.gather([active.start("cuda", command, timeout=PATIENCE, environment=environment)])["cuda"]


def cuda_of(machine: Machine, **variables: str) -> Reading[CudaAnswer]:
    """What libcuda says on a machine on which the reader ends by itself."""
    reply = cuda_reply(machine, **variables)
    assert (reply.failure, reply.errors) == ("", "")
    return cuda.assemble(reply)


def blocked_reply(machine: Machine, module: str, said: dict[bytes, int]) -> active.ChildReply:
    """The reply of a child that never ends, cut off as soon as it has said each of `said` that many times.

    Its deadline is moved to that moment: a test of hanging calls then takes no longer than what it waits for.
    """
    with fake_nvidia(machine) as environment:
        child = active.start(module, active.own_module(module), timeout=PATIENCE, environment=environment)

        def cut_off(names: object) -> None:
            if all(bytes(child.output).count(words) >= times for words, times in said.items()):
                child.timeout = 0.0

        reply = active.gather([child], cut_off)[module]
    assert reply.timed_out, reply
    return reply


def readings(gpu: Gpu) -> dict[str, Reading[Any]]:
    """A GPU's facts by name."""
    return {name: getattr(gpu, name) for name in gpu.__struct_fields__ if name != "index"}


def kinds(gpu: Gpu) -> set[str | None]:
    """Why facts of it are missing, None among them for those that are not."""
    return {reading.missing_kind for reading in readings(gpu).values()}


def write(path: Path, text: str) -> None:
    """A file of a fake tree, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
