"""`gpudoctor nccl-test --hosts` on hosts with real ssh, torchrun and gloo: each fault gets its own name, and an end.

One row of a table is one fault: how it is made, what must be found, on whom. After each, no process is left anywhere.
"""

import importlib.util
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.lab import traffic
from tests.lab.hosts import Host
from tests.lab.nccl_command import COMMAND, SHORT, answer, findings, three
from tests.lab.slurm import slurm_cluster
from tests.lab.sshd import Cluster, SshHost, ssh_hosts

PORT = 29511
LISTEN = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    print("ready", flush=True)
    server.accept()
"""


def test_three_hosts_without_a_fault() -> None:
    with three(truly=True) as cluster:
        found = answer(cluster)
    assert (found["outcome"], found["world_size"], found["backend"]) == ("complete", 3, "gloo")
    assert found["problems"] == [] and found["exit_status"] == 0
    assert [row["wrong"] for row in found["run"]["rows"]] == [0] * len(found["run"]["rows"])
    assert {row["size_bytes"] for row in found["run"]["rows"]} == {8, 64, 512}


# ---------------------------------------------------------------- before any rank is started


class Fault(NamedTuple):
    """How it is made at the hosts, the options of the command, and what must be found."""

    make: Callable[[Cluster], object]
    finds: str
    nodes: str
    """The finding's nodes, in one word."""
    words: tuple[str, ...] = ()
    """In its summary."""
    options: tuple[str, ...] = ()
    outcome: str = "preflight failed"


def only_ssh(*machines: Host) -> None:
    for host in machines:
        traffic.only_ssh(host)


def loopback_name(host: Host) -> None:
    """As Debian's installer writes it."""
    others = "".join(f"10.0.0.{number} {name}\n" for number, name in enumerate("abc", start=1) if name != host.name)
    host.etc("hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n{others}")


def without_the_head(host: Host) -> None:
    host.etc("hosts", "127.0.0.1 localhost\n10.0.0.2 b\n10.0.0.3 c\n")


def another_head(host: Host) -> None:
    host.etc("hosts", "127.0.0.1 localhost\n10.0.0.77 a\n10.0.0.2 b\n10.0.0.3 c\n")


def head_at_loopback(host: Host) -> None:
    host.etc("hosts", "127.0.0.1 localhost\n127.0.1.1 a\n10.0.0.2 b\n10.0.0.3 c\n")


def torch_folder() -> Path:
    specification = importlib.util.find_spec("torch")
    assert specification is not None and specification.origin is not None
    return Path(specification.origin).parent


def other_torch(host: SshHost) -> None:
    original = torch_folder() / "version.py"
    instead = host.folder / "version.py"
    instead.write_text(re.sub(r"\d+\.\d+\.\d+", "2.4.1", original.read_text()))
    host.put(instead, original)
    for metadata in torch_folder().parent.glob("torch-*.dist-info/METADATA"):
        changed = host.folder / "METADATA"
        changed.write_text(re.sub(r"(?m)^Version: .*$", "Version: 2.4.1", metadata.read_text()))
        host.put(changed, metadata)


NOT_REACHED = {
    "ssh is refused": Fault(lambda c: c.refuse_key("b"), "node-auth-refused", "b", ("Permission denied (publickey)",)),
    "unknown host key": Fault(lambda c: c.forget("b"), "node-host-key-unknown", "b"),
    "changed host key": Fault(lambda c: c.reinstall("b"), "node-host-key-changed", "b"),
    "no sshd": Fault(lambda c: c.b.stop_sshd(), "node-refused", "b", ("Connection refused",)),
    "host down": Fault(lambda c: c.b.power_off(), "node-unreachable", "b", ("No route to host",)),
    "host frozen": Fault(lambda c: c.b.freeze(), "node-no-answer", "b"),
    "ssh dropped": Fault(lambda c: traffic.drop(c.b, 22), "node-unreachable", "b", ("timed out",)),
    "gpudoctor missing": Fault(lambda c: c.b.hide(sys.prefix), "gpudoctor-missing-on-node", "b"),
}
MASTER = ("--master-port", str(PORT))
PREFLIGHT = {
    "head's port dropped": Fault(
        lambda c: traffic.drop(c.a, PORT), "master-unreachable", "abc", ("b,c", str(PORT)), MASTER
    ),
    "only ssh gets to b": Fault(lambda c: traffic.only_ssh(c.b), "ports-blocked-between-nodes", "b"),
    "ssh only, everywhere": Fault(lambda c: only_ssh(*c.hosts), "only-ssh-gets-through", "abc"),
    "the head is loopback on b": Fault(
        lambda c: head_at_loopback(c.b), "master-addr-loopback", "b", ("127.0.1.1",), ("--master-addr", "a")
    ),
    "the head's own name is loopback": Fault(
        lambda c: loopback_name(c.a), "hostname-loopback", "a", ("127.0.1.1",), ("--master-addr", "a")
    ),
    "a host's own name is loopback": Fault(lambda c: loopback_name(c.b), "hostname-loopback", "b", ("127.0.1.1",)),
    "the head does not resolve on b": Fault(
        lambda c: without_the_head(c.b), "master-addr-unresolvable", "b", (), ("--master-addr", "a")
    ),
    "the head resolves differently on b": Fault(
        lambda c: another_head(c.b), "head-resolves-differently", "b", ("10.0.0.77",), ("--master-addr", "a")
    ),
    "no such interface": Fault(lambda c: None, "socket-interface-missing", "abc", ("eth7",), ("--interface", "eth7")),
    "a clock that is ahead": Fault(lambda c: c.b.shift_clock(40), "clock-skew", "b", ("40.0 s ahead",)),
    "another torch": Fault(lambda c: other_torch(c.b), "torch-versions-differ", "b", ("2.4.1",)),
}
HARMLESS = {
    "small MTU on b": Fault(lambda c: traffic.mtu(c.b, 1400), "mtu-mismatch", "b", ("1400", "1500")),
    "another setting": Fault(
        lambda c: c.b.set(NCCL_ALGO="Tree"), "settings-differ-between-nodes", "b", ("NCCL_ALGO", "Tree")
    ),
}
FAULTS = [
    *(pytest.param(fault, "too few nodes", id=name) for name, fault in NOT_REACHED.items()),
    *(pytest.param(fault, "preflight failed", id=name) for name, fault in PREFLIGHT.items()),
    *(pytest.param(fault, "complete", id=name) for name, fault in HARMLESS.items()),
]


@pytest.mark.parametrize("fault, outcome", FAULTS)
def test_the_preflight_names(fault: Fault, outcome: str) -> None:
    with three() as cluster:
        fault.make(cluster)
        answered = answer(cluster, *fault.options)
        found = findings(answered)
        assert fault.finds in found, answered
        finding = found[fault.finds]
        assert set(finding["nodes"]) == set(fault.nodes), finding
        assert all(word in finding["problem"]["summary"] for word in fault.words), finding
        assert answered["outcome"] == outcome
        assert (answered["run"] is not None) == (outcome == "complete")


def test_a_port_that_is_in_use() -> None:
    with three() as cluster, cluster.a.start(sys.executable, "-c", LISTEN, str(PORT)) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        found = findings(answer(cluster, *MASTER))["master-port-busy"]
        assert "a" in found["nodes"]
        assert str(PORT) in found["problem"]["summary"] and f"pid {holder.pid}" in str(found["problem"])
        holder.kill()
        holder.wait()


def test_large_packets_that_vanish_on_the_data_network() -> None:
    """The network that ssh goes by is whole."""
    with ssh_hosts("a", "b", "c", nics=2) as cluster:
        traffic.switch_mtu(cluster.b, 1400, nic=1)
        answered = answer(cluster, "--interface", "eth1")
        finding = findings(answered)["large-packets-lost"]
        assert "b" in finding["nodes"] and answered["outcome"] == "preflight failed"
        assert cluster.left_over() == {}


# ---------------------------------------------------------------- what is measured

CORRUPTION = """

_whole = all_reduce


def all_reduce(tensor, *arguments, **options):
    result = _whole(tensor, *arguments, **options)
    if result is not None:
        result.wait()
    if tensor.numel() == 128:
        tensor.view(-1)[77] += 1
    return result
"""


def corrupt(host: SshHost) -> None:
    """One element of 512 bytes of float32 arrives wrong at this host."""
    original = torch_folder() / "distributed/distributed_c10d.py"
    instead = host.folder / original.name
    instead.write_text(original.read_text() + CORRUPTION)
    host.put(instead, original)


def test_data_that_arrives_wrong() -> None:
    with three() as cluster:
        corrupt(cluster.b)
        answered = answer(cluster)
    finding = findings(answered)["collective-data-wrong"]
    assert finding["nodes"] == ["b"] and finding["ranks"] == [1]
    assert {row["size_bytes"]: bool(row["wrong"]) for row in answered["run"]["rows"]} == {
        8: False,
        64: False,
        512: True,
    }
    assert answered["exit_status"] == 1


def slow_culprits(cluster: Cluster) -> list[dict[str, Any]]:
    size = ("--min-bytes", "4M", "--max-bytes", "4M", "--iters", "4")
    isolation = answer(cluster, "--find-slow", *size, timeout=500)["isolation"]
    culprits: list[dict[str, Any]] = isolation["culprits"]
    assert len(culprits) == 1, isolation
    return culprits


@pytest.mark.timeout(600)  # eight hosts: six rounds of sixteen times `import torch`, 150 s on two cores that others use
@pytest.mark.parametrize("names", ["abc", "abcdefgh"])
def test_a_slow_host_is_found(names: str) -> None:
    with ssh_hosts(*names) as cluster:
        traffic.uniform(*cluster.hosts)
        traffic.slow(cluster.b, "50mbit")
        (culprit,) = slow_culprits(cluster)
        assert (culprit["kind"], culprit["nodes"]) == ("node", ["b"]), culprit
        assert cluster.left_over() == {}


def test_a_slow_link_is_found() -> None:
    with three() as cluster:
        traffic.uniform(*cluster.hosts)
        traffic.slow_link(cluster.a, cluster.c, "50mbit")
        (culprit,) = slow_culprits(cluster)
        assert (culprit["kind"], sorted(culprit["nodes"])) == ("link", ["a", "c"]), culprit


def test_too_few_join() -> None:
    with three() as cluster:
        words = (*COMMAND, "--nodes", "3", "--wait", "2", "--json", *SHORT)
        done = cluster.a.run(*words, environment=cluster.environment())
        assert done.returncode == 1, done.stderr
        answered = msgspec.json.decode(done.stdout)
        assert answered["outcome"] == "too few nodes" and "too-few-nodes-joined" in findings(answered)


# ---------------------------------------------------------------- under SLURM


@pytest.mark.parametrize("way", ["salloc", "srun", "sbatch"])
def test_three_nodes_of_slurm(way: str) -> None:
    with slurm_cluster(3) as cluster:
        words = ("env", *(["-u", "PYTHONPATH"] if way == "srun" else []), *COMMAND, "--json", *SHORT)
        if way == "sbatch":
            output = cluster.sbatch(f"#!/bin/sh\n#SBATCH --nodes=3\n{shlex.join(words)} 2>/dev/null\n")
        else:
            done = (cluster.salloc if way == "salloc" else cluster.srun)("--nodes=3", *words)
            assert done.returncode == 0, done.stderr
            output = done.stdout
        found = msgspec.json.decode(output)
        assert (found["outcome"], found["world_size"], found["nodes"]) == ("complete", 3, ["n1", "n2", "n3"])
        assert found["reached_by"] == "srun"
        assert cluster.left_over() == []
