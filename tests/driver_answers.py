"""Asks libcuda what many values of CUDA_VISIBLE_DEVICES select: a fresh process for each, forked from one that has
not loaded the library, through the reader that gpudoctor itself uses.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from gpudoctor.active import gather, own_module, start
from gpudoctor.knowledge.environment import recorded
from gpudoctor.read import cuda, libcuda, nvidia
from gpudoctor.snapshot import Cuda, CudaAnswer, Snapshot, read

SECONDS_A_VALUE = 60
"""A driver without persistence mode takes seconds to initialise eight GPUs."""


def examined(environment: Mapping[str, str]) -> Snapshot:
    """What NVML and libcuda say of the machine: all GPUs, without CUDA_VISIBLE_DEVICES."""
    unset = {name: value for name, value in environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    children = [
        start(name, own_module(module), timeout=60, environment=unset)
        for name, module in (("nvidia", "gpudoctor.read.nvidia"), ("cuda", "gpudoctor.read.libcuda"))
    ]
    replies = gather(children)
    said = cuda.assemble(replies["cuda"])
    return Snapshot(
        environment=read("environment", recorded(unset)),
        nvidia=nvidia.assemble(replies["nvidia"]),
        cuda=Cuda(visible=said, all=said),
    )


def uuids_of(machine: Snapshot) -> list[str]:
    """The UUIDs of the GPUs, then of the MIG devices."""
    gpus = machine.nvidia.gpus.value
    return [gpu.uuid.value for gpu in gpus] + [mig.uuid.value for gpu in gpus for mig in gpu.mig_devices.value_or(())]


def driver_answers(values: Sequence[str], environment: Mapping[str, str], *, at_once: int = 2) -> dict[str, CudaAnswer]:
    """libcuda's answer for each value."""
    code = "import sys; from tests.driver_answers import main; main()"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    shares = [share for share in (values[first::at_once] for first in range(at_once)) if share]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment) | {"PYTHONPATH": root},
        )
        for _ in shares
    ]
    try:
        for child, share in zip(children, shares, strict=True):
            assert child.stdin is not None
            child.stdin.write(json.dumps(share).encode())
            child.stdin.close()
        answers: dict[str, CudaAnswer] = {}
        for child, share in zip(children, shares, strict=True):
            assert child.stdout is not None
            replies = msgspec.json.decode(child.stdout.read(), type=list[CudaAnswer])
            answers |= dict(zip(share, replies, strict=True))
        return answers
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def main() -> None:
    """The child: values as JSON on standard input, answers as JSON on standard output."""
    answers = [json.loads(ask(value)) for value in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))


def ask(value: str) -> bytes:
    """libcuda's answer in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(SECONDS_A_VALUE)  # a driver that hangs ends this process, and the missing answer is an error
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        os.write(writing, json.dumps(libcuda.CudaDriver(lambda message: None).answer()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer
