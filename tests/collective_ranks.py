"""Starts the rank program under real torchrun with gloo, as an agent does, and reads what its ranks say."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.marked import MARK, messages
from gpudoctor.nccl.rank_messages import (
    AnyRankMessage,
    Row,
    decoder,
)
from tests.lab import warm
from tests.lab.folders import passing_folder

WORKERS = Path(__file__).parent.parent / "gpudoctor" / "workers"
SECONDS = 150
"""A bound for what takes seconds, on a busy machine too."""


def launch(ranks: int, wanted: Sequence[Measurement], **fields: Any) -> Launch:
    given: dict[str, Any] = {"iterations": 2, "warmup": 1, "repeats": 1, "timeout": 60.0, **fields}
    return Launch(
        id="test",
        nodes=(0,),
        ranks_per_node=(ranks,),
        master_address="127.0.0.1",
        master_port=0,
        backend="gloo",
        device="cpu",
        measurements=tuple(wanted),
        **given,
    )


def command(wish: Launch, *, symmetric: bool = False) -> list[str]:
    """As the agent starts it; a rendezvous of torchrun's own, for the test chooses no port."""
    argument = json.dumps({"launch": msgspec.to_builtins(wish), "symmetric": symmetric})
    torchrun = [str(WORKERS / "under_doctor.py"), "-m", "torch.distributed.run", "--standalone"]
    return [
        sys.executable,
        *torchrun,
        f"--nproc-per-node={wish.ranks_per_node[0]}",
        str(WORKERS),
        "collective",
        argument,
    ]


def decoded(output: bytes) -> list[AnyRankMessage]:
    """The rank messages; every line that a worker says besides them has no type."""
    for line in output.split(b"\n"):
        assert len(line) <= 4096
        assert not line or line.startswith(MARK), line
    return [decoder.decode(json.dumps(said)) for said in messages(output) if "type" in said]


@contextmanager
def torchruns_folder() -> Iterator[dict[str, str]]:
    """TMPDIR for a torchrun: it leaves a folder of logs there, torchelastic_*."""
    with passing_folder("gpudoctor-torchrun-") as folder:
        yield {"TMPDIR": str(folder)}


def run(
    wish: Launch, *, symmetric: bool = False, truly: bool = False, **environment: str
) -> tuple[int, list[AnyRankMessage]]:
    with torchruns_folder() as own:
        done = warm.run_to_its_end(
            command(wish, symmetric=symmetric),
            env={**os.environ, **own, **environment},
            timeout=SECONDS,
            truly=truly,
        )
    return done.returncode, decoded(done.stdout)


def rows(said: Sequence[AnyRankMessage]) -> list[Row]:
    return [message for message in said if isinstance(message, Row)]


@contextmanager
def started(wish: Launch, environment: Mapping[str, str] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    with torchruns_folder() as own:
        process = warm.start(
            command(wish),
            env={**os.environ, **own, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=SECONDS)


def wait_for(process: "subprocess.Popen[bytes]", wanted: Mapping[type, int]) -> list[AnyRankMessage]:
    """Read messages until there are so many of each kind."""
    assert process.stdout is not None
    said: list[AnyRankMessage] = []
    for line in process.stdout:
        for message in messages(line):
            if "type" in message:
                said.append(decoder.decode(json.dumps(message)))
        if all(sum(isinstance(message, kind) for message in said) >= number for kind, number in wanted.items()):
            return said
    raise AssertionError(f"the ranks ended before: {said}")


def wait_until_gone(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + SECONDS
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
