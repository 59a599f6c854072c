"""Launches on hosts of the lab that ssh reaches, with a fault on or between them: what is blamed, and what is left."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab.sshd import Cluster, ssh_hosts

pytestmark = pytest.mark.timeout(600)  # waits for most of a minute
HEAD = """
import json, sys
import msgspec
from gpudoctor.fleet.hosts import from_hosts
from gpudoctor.fleet.messages import Examine, Examined, Launch, Measurement
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.ssh import SshFleet
from gpudoctor.nccl.run import run_launches
from gpudoctor.nccl.stopped import why_stopped
from gpudoctor.snapshot import from_json

LONG = "all_reduce of 1048576 bytes"
phases = []

def heard(launch, message):
    phase = getattr(message, "phase", "")
    phases.append(phase)
    if phases.count(LONG) == 2 and phase == LONG:
        print("running", flush=True)
        sys.stdin.readline()

with SshFleet(from_hosts("a,b"), connect_timeout=5) as fleet:
    reach(fleet, timeout=150)
    seen = fleet.ask(Examine(timeout=20), Examined, timeout=30)
    snapshots = {fleet.name(node): from_json(bytes(found.snapshot)) for node, found in seen.items()}
    launch = Launch(id="1", nodes=(0, 1), ranks_per_node=(1, 1), master_address="10.0.0.1", master_port=29500,
                    backend="gloo", device="cpu", measurements=(Measurement("all_reduce", 1 << 20),),
                    iterations=10**7, timeout=600)
    (result,) = run_launches(fleet, [launch], pythons={0: sys.executable, 1: sys.executable}, timeout=15,
                             heard=heard)
    found = [[f.id, f.nodes, f.problem.summary, f.problem.fix.commands] for f in why_stopped(result, snapshots)]
    print(json.dumps([result.outcome, found]), flush=True)
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("a", "b") as machines:
        yield machines


def findings(cluster: Cluster, meanwhile: Callable[[], object] | None = None) -> list[Any]:
    """What the head on host a finds; `meanwhile` is done when the ranks are in their measured windows."""
    process = subprocess.Popen(
        cluster.a.command(sys.executable, "-c", HEAD),
        env=cluster.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        line = process.stdout.readline()
        if meanwhile is not None:
            assert line == "running\n"
            meanwhile()
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline()
        outcome, found = json.loads(line)
        assert outcome in ("stalled", "died")
        return list(found)
    finally:
        process.kill()
        process.communicate()


def test_ports_of_the_kernels_choice_are_blocked(cluster: Cluster) -> None:
    cluster.a.filter("ip saddr 10.0.0.2 tcp dport != { 22, 29500 } ct state new drop")
    ((id, nodes, summary, commands),) = findings(cluster)
    assert (id, nodes) == ("firewall-ephemeral-ports", ["a", "b"])
    assert summary.startswith("rank 1 on b gets no answer from a on port "), summary
    assert commands[0] == "sudo nft list ruleset | grep -n -e drop -e reject  # on a"
    assert cluster.left_over() == {}


def test_the_port_of_the_rendezvous_is_blocked(cluster: Cluster) -> None:
    cluster.a.filter("ip saddr 10.0.0.2 tcp dport 29500 drop")
    ((id, nodes, summary, _),) = findings(cluster)
    assert (id, nodes) == ("master-unreachable", ["b"]), summary
    assert summary.startswith("b gets no answer from 10.0.0.1:29500"), summary
    assert cluster.left_over() == {}


def test_a_host_that_goes_while_it_measures(cluster: Cluster) -> None:
    ((id, nodes, summary, _),) = findings(cluster, cluster.b.power_off)
    assert (id, nodes) == ("node-lost", ["b"])
    assert summary.startswith("b was lost while the test ran: ")
    assert set(cluster.left_over()) <= {"b"}


def test_a_host_that_stops_all_its_processes(cluster: Cluster) -> None:
    try:
        ((id, nodes, _, _),) = findings(cluster, cluster.b.freeze)
        assert (id, nodes) == ("node-lost", ["b"])
    finally:
        cluster.b.thaw()
    assert cluster.left_over() == {}
