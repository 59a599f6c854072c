"""What NCCL's RAS answers, of every release that the lab has, as text and as JSON (tests/lab/nccl/ras_rank.py)."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.read.job import ras
from gpudoctor.read.job.ras_text import parse
from tests.lab import machines
from tests.lab.nccl import standins, wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl.looks import free_port

pytestmark = pytest.mark.timeout(300)
RELEASES = [release for release in wheels.NCCL_RELEASES if ras.version_of(release) >= ras.FIRST]
SPEAKS_JSON = (2, 28, 7)
GPUS, ODD = 4, 1
PROGRAM = Path(__file__).parent / "lab/nccl/ras_rank.py"
PATIENCE = 120.0


@contextlib.contextmanager
def running(release: str) -> Iterator[int]:
    """The port of RAS of one process with four GPUs, of which one has launched a collective more."""
    library, port = wheels.nccl(release) / "libnccl.so.2", free_port()
    with fake_nvidia(machines.hgx_h100()) as here:
        own = {
            "FAKE_CUDA_RUNTIME": "12080" if wheels.NCCL_RELEASES[release].endswith("cu12") else "13000",
            "LD_LIBRARY_PATH": f"{standins.for_nccl()}:{here.get('LD_LIBRARY_PATH', '')}",
            "NCCL_RAS_ADDR": f"localhost:{port}",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_GIN_TYPE": "2",
        }
        words = [sys.executable, str(PROGRAM), str(standins.for_nccl()), str(library), str(GPUS)]
        process = subprocess.Popen(
            words,
            env={**os.environ, **here, **own},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("RESULT"):
                    break
            assert said and said[-1].strip() == "RESULT 0", said
            yield port
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)


def text_of(port: int) -> bytes:
    """The report of a client that does not know JSON."""
    with socket.create_connection(("localhost", port), timeout=PATIENCE) as connection:
        received = b""
        for line in ("CLIENT PROTOCOL 2", "VERBOSE STATUS"):
            connection.sendall(f"{line}\n".encode())
            if line.startswith("CLIENT"):
                while b"\n" not in received:
                    received += connection.recv(4096)
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received.partition(b"\n")[2]


@pytest.mark.parametrize("release", RELEASES)
def test_ras_of_a_release_tells_who_has_launched_more(release: str) -> None:
    if release != wheels.NEWEST_NCCL and not wheels.nccl_folder(release).exists():
        pytest.skip(f"NCCL {release} is not there: python -m tests.lab.nccl fetch")
    with running(release) as port:
        until = time.monotonic() + PATIENCE
        answer = ras.ask("localhost", port, timeout=30.0)
        while not answer.communicators and time.monotonic() < until:
            time.sleep(0.5)
            answer = ras.ask("localhost", port, timeout=30.0)
        text = parse(text_of(port), 0.0, "text")
    assert answer.nccl.startswith(release)
    assert text.nccl.startswith(release)
    (communicator,) = [found for found in answer.communicators if found.ranks]
    assert communicator.size == GPUS
    counts = {rank.rank: rank.counts.get("AllReduce", rank.counts.get("")) for rank in communicator.ranks}
    if ras.version_of(release) >= SPEAKS_JSON:
        assert counts == {rank: 2 if rank == ODD else 1 for rank in range(GPUS)}
        assert {rank.pid for rank in communicator.ranks} != {0}
    (listed,) = [found for found in text.communicators if found.ranks]
    assert (listed.errors, {rank.rank: rank.counts.get("AllReduce") for rank in listed.ranks}) == ("MISMATCH", {ODD: 2})
    assert set(listed.parties["AllReduce"]) == {(GPUS - 1, 1), (1, 2)}
