"""Asks libcuda what many values of CUDA_VISIBLE_DEVICES select: a fresh process for each, forked from one that has
not loaded the library, through the reader that gpudoctor itself uses.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from gpudoctor.snapshot import CudaAnswer

SECONDS_A_VALUE = 60
"""A driver without persistence mode takes seconds to initialise eight GPUs."""


def driver_answers(values: Sequence[str], environment: Mapping[str, str], *, at_once: int = 2) -> dict[str, CudaAnswer]:
    """libcuda's answer for each value."""
    code = "import sys; from tests.driver_answers import main; main()"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    shares = [share for share in (values[start::at_once] for start in range(at_once)) if share]
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
    import signal

    from gpudoctor.read.cuda import Driver

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(SECONDS_A_VALUE)  # a driver that hangs ends this process, and the missing answer is an error
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        os.write(writing, json.dumps(Driver(lambda message: None).answer()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer
