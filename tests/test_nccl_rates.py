"""What nodes' networks can carry, beside each other and beside what was measured."""

import pytest

from gpudoctor.knowledge.wording import MIB
from gpudoctor.nccl.grade import grade
from gpudoctor.snapshot import Snapshot
from gpudoctor.testing.machines import but, h100_node
from gpudoctor.testing.networks import interface, loopback, port as rdma_port, rdma_device, with_interfaces, with_rdma
from tests.nccl_runs import paths_log, row, run_of

ADDRESS = "10.4.0.7/24"


def over_gloo(bandwidth: float, *interfaces: str, size: int = 64 * MIB, kind: str = "ethernet") -> dict[str, str]:
    """Id -> summary of what is said of nodes, a word such as "eth0:10000" each."""
    machines = {}
    for number, word in enumerate(interfaces, 1):
        name, _, speed = word.partition(":")
        nic = interface(name, ADDRESS, kind=kind, speed_mbps=int(speed) if speed else None)
        machine = with_interfaces(but(h100_node(1), "environment", {"GLOO_SOCKET_IFNAME": name}), loopback(), nic)
        machines[f"n{number:02}"] = machine
    return said(machines, bandwidth, "gloo", size)


def said(machines: dict[str, Snapshot], bandwidth: float, backend: str, size: int = 64 * MIB) -> dict[str, str]:
    run = run_of(machines, row("all_gather", bandwidth, size))
    _, findings = grade(run, machines, backend, paths_log(run, "P2P/CUMEM") if backend == "nccl" else {})
    return {each.id: each.problem.summary for each in findings}


@pytest.mark.parametrize(
    ("bandwidth", "interfaces", "ids"),
    [
        (1.0, ("eth0:10000", "eth0:10000"), []),
        (0.5, ("eth0:25000", "eth0:25000"), []),
        (0.5, ("eth0:10000", "eth0:1000"), ["link-speeds-differ"]),
        (0.02, ("eth0:10000", "eth0:10000"), ["far-below-the-link"]),
        (0.3, ("eth0:200000", "eth0:200000"), []),  # one connection of TCP does not fill it
        (0.02, ("eth0", "eth0"), []),  # a virtual machine's, which says no speed
        (0.5, ("eth0:10000", "eth0"), []),
    ],
)
def test_over_gloo(bandwidth: float, interfaces: tuple[str, ...], ids: list[str]) -> None:
    assert [*over_gloo(bandwidth, *interfaces)] == ids


def test_the_slow_node_is_named_with_numbers() -> None:
    assert (
        over_gloo(0.1, "eth0:10000", "eth0:10000", "eno2:1000")["link-speeds-differ"]
        == "n03 sends by eno2, 1 x 1 Gb/s (1 Gb/s), n01 and n02 by eth0, 1 x 10 Gb/s (10 Gb/s); alike nodes are wanted"
    )


def test_a_short_message_and_a_veth_say_nothing() -> None:
    assert not over_gloo(0.001, "eth0:10000", "eth0:10000", size=MIB)
    assert not over_gloo(0.001, "eth0:10000", "eth0:10000", kind="veth")


def test_one_port_of_a_node_is_slower() -> None:
    alike = with_rdma(h100_node(1), rdma_device(0))
    slow = with_rdma(h100_node(1), rdma_device(0, rdma_port("mlx5_0", rate_gbps=100.0)))
    assert "link-speeds-differ" not in said({"n01": alike, "n02": alike}, 40.0, "nccl")
    assert "n02 sends by 1 x 100 Gb/s RDMA" in said({"n01": alike, "n02": slow}, 10.0, "nccl")["link-speeds-differ"]


def test_what_the_log_says_outweighs_what_the_machine_lets_expect() -> None:
    """The doctor's shell tells NCCL to leave RDMA, the run's log says that it took it: nothing is said of eth0."""
    nic = interface("eth0", ADDRESS, speed_mbps=10_000)
    node = with_rdma(with_interfaces(h100_node(1), loopback(), nic), rdma_device(0))
    told = but(node, "environment", {"NCCL_IB_DISABLE": "1"})
    assert "link-speeds-differ" not in said({"n01": told, "n02": node}, 40.0, "nccl")
