"""The preflight over ssh on hosts of the lab, healthy and broken in every way that it names."""

import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.sshd import Cluster, SshHost, ssh_hosts
from tests.lab.traffic import switch_mtu

HEAD = """
import sys
import msgspec
from gpudoctor.fleet.hosts import from_hosts
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.ssh import Remote, SshFleet
from gpudoctor.nccl.lost import lost_findings
from gpudoctor.nccl.preflight import PreflightWish, preflight

wish = msgspec.json.decode(sys.argv[2], type=PreflightWish)
with SshFleet(from_hosts(sys.argv[1]), remote=Remote()) as fleet:
    reach(fleet, timeout=150)
    found = preflight(fleet, wish)
    sys.stdout.write(msgspec.json.encode({
        "problems": [*lost_findings(fleet), *found.findings], "address": found.master_address,
        "port": found.master_port, "addresses": found.addresses, "seconds": found.seconds,
        "outcomes": [each.outcome for every in found.reached.values() for each in every],
    }).decode())
"""
"""What `gpudoctor nccl-test` does before it starts ranks, as a program of the head."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("a", "b", "c") as made:
        yield made
        assert made.left_over() == {}


def preflight(cluster: Cluster, hosts: str = "a,b,c", *, ssh: str = "", **wish: Any) -> Any:
    """The preflight's answer; gloo, which is what these hosts have, with room for a busy machine. `ssh`: options."""
    environment = cluster.environment()
    environment["GPUDOCTOR_SSH"] += f" {ssh}"
    words = json.dumps({"backend": "gloo", "timeout": 40.0, **wish})
    done = cluster.head.run(sys.executable, "-c", HEAD, hosts, words, environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def only(answer: Any, id: str) -> Any:
    """The one finding of that id; there are no other errors."""
    named = [each for each in answer["problems"] if each["id"] == id]
    errors = [each for each in answer["problems"] if each["problem"]["severity"] == "error" and each["id"] != id]
    assert (len(named), errors) == (1, []), answer["problems"]
    return named[0]


def said(finding: Any) -> str:
    """Everything that is told of it."""
    problem = finding["problem"]
    return " ".join((problem["summary"], problem["meaning"], problem["fix"]["text"], *problem["fix"]["commands"]))


def test_healthy_hosts_give_no_word(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    answer = preflight(cluster)
    assert answer["problems"] == []
    assert (answer["address"], answer["addresses"]) == ("10.0.0.1", {"0": "10.0.0.1", "1": "10.0.0.2", "2": "10.0.0.3"})
    assert 61000 <= answer["port"] <= 65535
    assert answer["outcomes"] == ["connected"] * 9
    record_property("seconds", answer["seconds"])


def test_the_heads_port_is_dropped(cluster: Cluster) -> None:
    cluster.a.filter('iifname "eth0" tcp dport 29500 drop')
    found = only(preflight(cluster, master_port=29500), "master-unreachable")
    assert found["nodes"] == ["a", "b", "c"]
    assert "[b-c]" in said(found) or "b,c" in said(found)
    assert "29500 of a" in found["problem"]["summary"]
    assert "no answer from 10.0.0.1 port 29500" in found["problem"]["summary"]
    assert "--master-port" in said(found)


def test_everything_but_ssh_is_dropped_on_one_host(cluster: Cluster) -> None:
    cluster.b.filter("tcp dport != 22 ct state new drop")
    found = only(preflight(cluster), "ports-blocked-between-nodes")
    assert found["nodes"] == ["b"]
    assert found["problem"]["summary"].startswith("b cannot be reached from any other node")
    assert "10.0.0.0/24" in said(found)
    assert "tcp dport != 22" in json.dumps(found["problem"]["evidence"])


def test_everything_but_ssh_is_dropped_everywhere(cluster: Cluster) -> None:
    for host in cluster.hosts:
        host.filter('iifname != "lo" tcp dport != 22 ct state new drop')
    found = only(preflight(cluster), "only-ssh-gets-through")
    assert found["nodes"] == ["a", "b", "c"]
    assert "only ssh gets through" in found["problem"]["summary"]


def test_one_direction_of_one_pair_is_rejected(cluster: Cluster) -> None:
    cluster.c.filter("ip saddr 10.0.0.2 tcp dport > 1024 ct state new reject with tcp reset")
    found = only(preflight(cluster), "ports-blocked-between-nodes")
    assert "b cannot connect to c, while c reaches b" in found["problem"]["summary"]
    assert "refused, with a listener open there" in found["problem"]["summary"]


def test_own_hostname_at_a_loopback_address(cluster: Cluster) -> None:
    cluster.b.etc("hosts", "127.0.0.1 localhost\n127.0.1.1 b\n10.0.0.1 a\n10.0.0.3 c\n")
    found = only(preflight(cluster), "hostname-loopback")
    assert found["nodes"] == ["b"]
    assert "gloo on b would listen at 127.0.1.1" in found["problem"]["summary"]
    assert "gpudoctor nccl-test --interface eth0" in found["problem"]["fix"]["commands"]


def test_the_fix_for_a_loopback_hostname_works(cluster: Cluster) -> None:
    cluster.b.etc("hosts", "127.0.0.1 localhost\n127.0.1.1 b\n10.0.0.1 a\n10.0.0.3 c\n")
    assert [each["id"] for each in preflight(cluster, interface="eth0")["problems"]] == []


@pytest.mark.parametrize("is_used", [False, True])
def test_the_heads_name_does_not_resolve(cluster: Cluster, is_used: bool) -> None:
    cluster.c.etc("hosts", "127.0.0.1 localhost\n10.0.0.3 c\n")
    answer = preflight(cluster, **({"master_address": "a"} if is_used else {}))
    (found,) = answer["problems"]
    assert (found["id"], found["nodes"]) == ("master-addr-unresolvable", ["c"])
    assert found["problem"]["severity"] == ("error" if is_used else "warning")
    assert "name a does not resolve on c" in found["problem"]["summary"]
    assert "10.0.0.1 a" in said(found)


def test_the_heads_name_is_another_machine_on_one_host(cluster: Cluster) -> None:
    cluster.c.etc("hosts", "127.0.0.1 localhost\n10.0.0.3 c\n10.0.0.2 a\n")
    (found,) = preflight(cluster)["problems"]
    assert (found["id"], found["nodes"]) == ("head-resolves-differently", ["c"])
    assert "10.0.0.2 on c" in found["problem"]["summary"]


def test_the_wished_port_is_busy(cluster: Cluster) -> None:
    listen = "import socket, time; s = socket.create_server(('', 29500)); print('up', flush=True); time.sleep(600)"
    with cluster.a.start(sys.executable, "-c", listen) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "up\n"
        found = only(preflight(cluster, master_port=29500), "master-port-busy")
    assert found["nodes"] == ["a"]
    assert "Port 29500 of the head a cannot be opened: in use by pid" in found["problem"]["summary"]


def test_the_master_address_is_another_node(cluster: Cluster) -> None:
    found = only(preflight(cluster, master_address="10.0.0.3"), "master-addr-elsewhere")
    assert "10.0.0.3 does not lead to a" in found["problem"]["summary"]


def test_the_interface_is_misspelt(cluster: Cluster) -> None:
    found = only(preflight(cluster, interface="etho"), "socket-interface-missing")
    assert found["nodes"] == ["a", "b", "c"]
    assert "Did you mean eth0?" in said(found)


def test_one_host_gets_another_interface(cluster: Cluster) -> None:
    cluster.c.set(GLOO_SOCKET_IFNAME="lo")
    answer = preflight(cluster)
    found = next(each for each in answer["problems"] if each["id"] == "hostname-loopback")
    assert found["nodes"] == ["c"]
    assert "GLOO_SOCKET_IFNAME is lo" in found["problem"]["summary"]


def test_interfaces_in_different_networks() -> None:
    with ssh_hosts("a", "b", "c", nics=2) as cluster:
        cluster.c.set(GLOO_SOCKET_IFNAME="eth1")
        cluster.c.filter('iifname "eth0" tcp dport != 22 ct state new drop')
        for host in (cluster.a, cluster.b):
            host.filter('iifname "eth1" drop')
            run(host, "ip", "route", "add", "unreachable", "10.0.1.3/32")
        found = only(preflight(cluster), "wrong-nic")
        assert "eth1 (10.0.1.3) on c" in found["problem"]["summary"]
        assert set(found["nodes"]) == {"a", "b", "c"}


def test_large_packets_are_lost() -> None:
    """Both ends at 9000, the switch at 1500, on a network of its own: ssh would not come through either."""
    with ssh_hosts("a", "b", "c", nics=2) as cluster:
        for host in (cluster.a, cluster.b):
            # Without offloads, as on a wire: the kernel hands unsegmented packets on whatever the switch's MTU.
            run(host, "ip", "link", "set", "eth1", "mtu", "9000", "gso_max_segs", "1")
        answer = preflight(cluster, interface="eth1")
        found = only(answer, "large-packets-lost")
        assert found["nodes"] == ["a", "b"]
        assert "Between a and b small packets arrive and large ones do not" in found["problem"]["summary"]
        assert "MTU 9000" in found["problem"]["summary"]
        mtu = next(each for each in answer["problems"] if each["id"] == "mtu-mismatch")
        assert mtu["problem"]["severity"] == "warning"


def test_large_packets_vanish_on_the_way_of_ssh(cluster: Cluster) -> None:
    """Hello and pings are small and arrive, the snapshot does not."""
    switch_mtu(cluster.b, 1400, outward_only=True)
    # A key exchange of small packets. The time is less than ssh itself waits for a silent node.
    found = only(preflight(cluster, ssh="-oKexAlgorithms=curve25519-sha256", timeout=15.0), "large-packets-lost")
    assert found["nodes"] == ["b"]
    assert "this machine and b small messages get through and large ones do not" in found["problem"]["summary"]
    assert "MTU" in said(found)


def test_another_torch_on_one_host(cluster: Cluster, tmp_path: Path) -> None:
    own = importlib.metadata.version("torch")
    shadow = tmp_path / "shadow"
    (shadow / "torch").mkdir(parents=True)
    (shadow / "torch" / "__init__.py").write_text("")
    (shadow / "torch" / "version.py").write_text("__version__ = '2.4.1'\ncuda = None\n")
    (shadow / "torch-2.4.1.dist-info").mkdir()
    (shadow / "torch-2.4.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n")
    interpreter, other = tmp_path / "python", tmp_path / "other"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.write_text(f'#!/bin/sh\nPYTHONPATH={shadow} exec {sys.executable} "$@"\n')
    for path in (interpreter, other):
        path.chmod(0o755)
    cluster.b.put(other, interpreter)
    found = only(preflight(cluster, python=str(interpreter)), "torch-versions-differ")
    assert found["nodes"] == ["b"]
    assert f"b has torch 2.4.1, a,c have {own}" in found["problem"]["summary"]
    assert any("install torch==" in line and line.startswith("ssh b ") for line in found["problem"]["fix"]["commands"])


def test_the_interpreter_is_not_on_one_host(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    folder.mkdir()
    interpreter = folder / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    cluster.c.hide(folder)
    found = only(preflight(cluster, python=str(interpreter)), "interpreter-missing-on-node")
    assert found["nodes"] == ["c"]
    assert str(interpreter) in found["problem"]["summary"]


@pytest.mark.parametrize(("seconds", "severity"), [(-9, "warning"), (17, "error")])
def test_a_clock_is_off(cluster: Cluster, seconds: int, severity: str) -> None:
    cluster.b.shift_clock(seconds)
    found = next(each for each in preflight(cluster)["problems"] if each["id"] == "clock-skew")
    assert (found["nodes"], found["problem"]["severity"]) == (["b"], severity)
    direction = "ahead" if seconds > 0 else "behind"
    summary = found["problem"]["summary"]
    assert f"that of b is {abs(seconds) - 1}." in summary or f"that of b is {abs(seconds)}." in summary
    assert direction in summary


def test_settings_differ(cluster: Cluster) -> None:
    cluster.b.set(NCCL_ALGO="Ring", NCCL_DEBUG="INFO")
    found = only(preflight(cluster, backend="nccl"), "settings-differ-between-nodes")
    assert found["nodes"] == ["b"]
    assert "NCCL_ALGO is 'Ring' on b, not set on a,c" in found["problem"]["summary"]


def test_forwarded_settings_make_them_alike(cluster: Cluster) -> None:
    cluster.b.set(NCCL_ALGO="Ring")
    ids = [each["id"] for each in preflight(cluster, backend="nccl", settings={"NCCL_ALGO": "Tree"})["problems"]]
    assert "settings-differ-between-nodes" not in ids


def run(host: SshHost, *words: str) -> None:
    done = host.run(*words)
    assert done.returncode == 0, done.stderr
