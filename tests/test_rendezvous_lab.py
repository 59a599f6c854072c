"""`gpudoctor check network` on hosts with real interfaces: each fault of the rendezvous gets its own name."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lab.hosts import ETC, NAMESPACES, Host, hosts

PORT = "29500"
INHERITED = ("MASTER_", "NCCL_", "GLOO_", "TP_", "SLURM_", "TORCHELASTIC_", "OMPI_", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
TWO_NODES = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
LISTEN = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    print("listening", flush=True)
    while True:
        server.accept()[0].close()
"""


def check(host: Host, *what: str, **variables: str) -> dict[str, dict[str, Any]]:
    """The problems that `gpudoctor check` finds on a host, by id; nothing may be read in vain."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED)}
    words = (
        sys.executable,
        "-m",
        "gpudoctor",
        "check",
        *(what or ("network",)),
        "--no-torch",
        "--timeout",
        "5",
        "--json",
    )
    done = host.run(*words, environment=environment | TWO_NODES | {"MASTER_PORT": PORT} | variables)
    assert done.returncode in (0, 1), done.stderr
    report = msgspec.json.decode(done.stdout)
    found = {}
    for result in report["results"]:
        assert result["outcome"] not in ("crashed", "skipped"), result
        for problem in result.get("problems", ()):
            found[result["check"]] = problem
    return found


def faults(problems: dict[str, dict[str, Any]]) -> set[str]:
    """Those that are worth more than an info."""
    return {name for name, problem in problems.items() if problem["severity"] != "info"}


def listening(host: Host, port: str = PORT) -> Any:
    return host.start(sys.executable, "-c", LISTEN, port)


def test_two_hosts_without_a_fault() -> None:
    with hosts("head", "worker") as (head, worker), listening(head) as server:
        assert server.stdout is not None and server.stdout.readline() == "listening\n"
        assert check(worker, MASTER_ADDR="head", NODE_RANK="1") == {}
        assert check(worker, MASTER_ADDR=head.address(), NODE_RANK="1") == {}


def test_before_the_job_starts() -> None:
    with hosts("head", "worker") as (head, worker):
        assert check(head, MASTER_ADDR="head", NODE_RANK="0") == {}
        found = check(worker, MASTER_ADDR="head", NODE_RANK="1")
        assert set(found) == {"master-port-closed"} and not faults(found)


def test_the_head_nodes_name_leads_to_loopback() -> None:
    with hosts("head", "worker") as (head, _):
        head.etc("hosts", "127.0.0.1 localhost\n127.0.1.1 head\n")
        found = check(head, "network", "hostname-loopback", MASTER_ADDR="head", NODE_RANK="0")
        assert faults(found) == {"master-addr-loopback", "hostname-loopback"}
        assert "127.0.1.1" in found["master-addr-loopback"]["summary"]
        assert found["master-addr-loopback"]["fix"]["commands"] == [f"export MASTER_ADDR={head.address()}"]


def test_the_head_node_has_no_such_name() -> None:
    with hosts("head", "worker") as (_, worker):
        found = check(worker, MASTER_ADDR="haed", NODE_RANK="1")
        assert faults(found) == {"master-addr-unresolvable"}
        assert "haed" in found["master-addr-unresolvable"]["summary"]


def test_the_port_is_taken() -> None:
    with hosts("head", "worker") as (head, _), listening(head) as server:
        assert server.stdout is not None and server.stdout.readline() == "listening\n"
        found = check(head, MASTER_ADDR="head", NODE_RANK="0")
        assert faults(found) == {"master-port-busy"}
        assert f"pid {server.pid} python" in found["master-port-busy"]["summary"]


def test_a_packet_filter_drops_the_port() -> None:
    with hosts("head", "worker") as (head, worker), listening(head) as server:
        assert server.stdout is not None and server.stdout.readline() == "listening\n"
        head.filter(f"tcp dport {PORT} drop")
        found = check(worker, MASTER_ADDR="head", NODE_RANK="1")
        assert faults(found) == {"master-unreachable"}
        assert "gives no answer" in found["master-unreachable"]["summary"]
        found = check(head, "firewall-drops-nodes", MASTER_ADDR="head", NODE_RANK="0")
        assert f"tcp dport {PORT} drop" in found["firewall-drops-nodes"]["summary"]


def test_the_network_of_one_nic_leads_nowhere() -> None:
    """The head is named by its address on eth1, and this host's eth1 is connected to nothing."""
    with hosts("head", "worker", nics=2) as (head, worker), listening(head) as server:
        assert server.stdout is not None and server.stdout.readline() == "listening\n"
        found = check(worker, MASTER_ADDR=head.address(1), NODE_RANK="1")
        assert not faults(found) and set(found) == {"socket-interface-off-route"}
        worker.isolate(1)
        found = check(worker, MASTER_ADDR=head.address(1), NODE_RANK="1")
        assert faults(found) == {"master-unreachable"}
        assert not faults(check(worker, MASTER_ADDR=head.address(0), NODE_RANK="1"))


def test_the_named_nic_has_no_link() -> None:
    with hosts("head", "worker", nics=2) as (head, worker):
        worker.unplug(1)
        found = check(worker, MASTER_ADDR="head", NODE_RANK="1", GLOO_SOCKET_IFNAME="eth1")
        assert faults(found) == {"socket-interface-down"}
        assert "has no link" in found["socket-interface-down"]["summary"]
        assert head.name == "head"


def test_the_named_nic_is_not_there() -> None:
    with hosts("head", "worker") as (_, worker):
        found = check(worker, MASTER_ADDR="head", NODE_RANK="1", NCCL_SOCKET_IFNAME="eth3")
        assert faults(found) == {"socket-interface-missing"}


def test_nothing_is_left_behind() -> None:
    with pytest.raises(ZeroDivisionError), hosts("a", "b") as (a, _):
        left = [NAMESPACES / a.namespace, NAMESPACES / a.switch, ETC / a.namespace]
        assert all(map(Path.exists, left))
        raise ZeroDivisionError
    assert not any(map(Path.exists, left))
