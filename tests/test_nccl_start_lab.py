"""`gpudoctor hang` of jobs whose NCCL does not come through its start: over sockets, and over (fake) InfiniBand.

torch's CUDA build and NCCL come from the package index into a cache, as in test_torch_nccl_lab.py. More faults of
InfiniBand, and what `explain` says after them: `python -m tests.lab.torch_nccl.over_infiniband`.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lab import machines
from tests.lab.hangs.hosts import PATIENCE, job
from tests.lab.hangs.starting import EPHEMERAL, PORT
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.requirements import require
from tests.lab.sshd import ssh_hosts, wait_until
from tests.lab.torch_nccl import looks, over_infiniband

pytestmark = pytest.mark.timeout(600)
LIMIT = 600
"""No time-out of the group comes in between."""
STANDS_AFTER = 5.0
"""Seconds behind a rank's first collective."""


@pytest.fixture(scope="module")
def release() -> looks.Wheels:
    require(os.geteuid() == 0, "no permission to make namespaces: be root")
    return looks.Wheels.of(wheels.NEWEST_TORCH)


def test_a_firewall_keeps_nccl_from_starting(tmp_path: Path, release: looks.Wheels) -> None:
    """The store is reached, and the port that NCCL listens on is not."""
    program = tmp_path / "train.py"
    program.write_text(over_infiniband.PROGRAM.replace("{limit}", str(LIMIT)))
    with (
        ssh_hosts("a", "b") as cluster,
        job(cluster, truly=True) as running,
        looks.meeting_place() as place,
        fake_nvidia(machines.hgx_h100()) as around,
    ):
        cluster["a"].filter(f"{EPHEMERAL} drop")
        variables = around | looks.environment(release, "plain", tmp_path, place) | {"NCCL_SOCKET_IFNAME": "eth0"}
        variables |= {"MASTER_ADDR": cluster.head.address(), "MASTER_PORT": str(PORT), "WORLD_SIZE": "2"}
        for rank, name in enumerate("ab"):
            own = {"RANK": str(rank), "LOCAL_RANK": "0"}
            running.start(name, sys.executable, "-u", str(program), **variables, **own)
        for rank, name in enumerate("ab"):
            running.wait_for(name, f"rank {rank} begins")
        wait_until(lambda: bool(cluster["b"].run("ss", "-Htn", "state", "syn-sent").stdout.strip()), PATIENCE)
        time.sleep(STANDS_AFTER)
        words = (sys.executable, "-m", "gpudoctor", "hang", "--hosts", "a,b", "--json")
        done = cluster.head.run(*words, environment=cluster.environment())
        found: list[dict[str, Any]] = msgspec.json.decode(done.stdout)["jobs"]
        (told,) = (each for each in found if f":{PORT}" in each["id"])
    said = [(each["cause"], each["ranks"]) for each in told["causes"][:1]]
    assert (told["state"], said) == ("hung", [("firewall-ephemeral-ports", [0])]), done.stdout


def test_a_port_of_infiniband_that_does_not_answer(tmp_path: Path, release: looks.Wheels) -> None:
    """A call of the driver does not return on rank 1: nobody but that call knows of it, and nobody else is blamed."""
    with over_infiniband.started("stuck", release, tmp_path, LIMIT) as process:
        until = time.monotonic() + 240
        while "rank 1 begins" not in (tmp_path / "log").read_text(errors="replace"):
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text(errors="replace")
            time.sleep(0.5)
        time.sleep(STANDS_AFTER)
        answer, _ = looks.gpudoctor(tmp_path, "hang", machines.hgx_h100(), "hang", "--pid", str(process.pid))
    (told,) = answer["jobs"]
    first = next((each["cause"] for each in told["causes"] if each["confidence"] >= 0.5), "")
    assert told["state"] == "hung" and first in over_infiniband.WANTED["stuck"].live, told
