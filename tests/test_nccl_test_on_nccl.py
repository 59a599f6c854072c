"""`gpudoctor nccl-test` with its own ranks on the real NCCL, over the stand-ins (tests/lab/torch_nccl): never graded.

No kernel of torch runs there, so that what its data check says of a gather is no fault: it is left out.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lab import machines
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl import looks, two_nodes

pytestmark = pytest.mark.timeout(600)
SHORT = ("--max-bytes", "512", "--factor", "8", "--warmup", "1", "--iters", "2", "--no-compare-data", "--json")


def answer(folder: Path, **settings: str) -> dict[str, Any]:
    release = looks.Wheels.of(wheels.NEWEST_TORCH)
    with looks.meeting_place() as place, fake_nvidia(machines.hgx_h100()) as here:
        variables = {**os.environ, **here, **looks.environment(release, "plain", folder, place), "OMP_NUM_THREADS": "1"}
        variables["LD_LIBRARY_PATH"] = f"{release.standins}:{here.get('LD_LIBRARY_PATH', '')}"
        variables |= {"PYTHONPATH": str(release.site), **settings}
        command = [sys.executable, "-m", "gpudoctor", "nccl-test", "--gpus-per-node", "2", *SHORT]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def test_an_algorithm_that_cannot_gather(tmp_path: Path) -> None:
    """NCCL >= 2.24 ends with an error in an all_gather where NCCL_ALGO=Tree: what ranks tell each other is none."""
    found = answer(tmp_path, NCCL_ALGO="Tree")
    assert (found["backend"], found["outcome"], found["problems"]) == ("nccl", "complete", [])


def test_the_ranks_of_two_nodes_own_torchruns(tmp_path: Path) -> None:
    """Symmetric mode: each process runs its part, and rank 0 alone speaks."""
    head, other = two_nodes.ask("symmetric", tmp_path, *two_nodes.SMALL, "--json")

    assert (head.status, other.status) == (0, 0), f"{head}\n{other}"
    found = msgspec.json.decode(head.output)
    assert (found["backend"], found["outcome"], found["world_size"]) == ("nccl", "complete", 4)
    assert other.output == ""


@pytest.mark.skipif(os.environ.get("GPUDOCTOR_LONG") != "1", reason="two minutes on a busy machine: GPUDOCTOR_LONG=1")
def test_rounds_of_find_slow(tmp_path: Path) -> None:
    """Two nodes that are alike, each by itself and then together: none is named, for a third one would tell."""
    head, other = two_nodes.ask("find-slow", tmp_path, *two_nodes.WORDS["find-slow"], "--json")

    assert (head.status, other.status) == (0, 0), f"{head}\n{other}"
    found = msgspec.json.decode(head.output)
    rounds = found["isolation"]["rounds"]
    assert [one["groups"] for one in rounds] == [[["a"], ["b"]], [["a", "b"]]]
    assert all(value for one in rounds for value in one["bus_bandwidth"])
