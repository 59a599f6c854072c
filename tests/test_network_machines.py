"""Whole machines with their networks: each answer is the one that NCCL's own rules give (network_expected.py)."""

import pytest
from msgspec import structs

from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.network.gpu_direct import verdicts
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.redact import redact
from gpudoctor.render.network import network_line
from gpudoctor.snapshot import Snapshot, missing, read
from gpudoctor.testing.machines import h100_node, node
from gpudoctor.testing.networks import with_network
from tests.machines.network_expected import EXPECTED, Expected
from tests.machines.network_machines import NETWORK_MACHINES
from tests.machines.reports import judged, report_of

STORIES = [(name, build(), EXPECTED[name]) for name, build in NETWORK_MACHINES.items()]
EVERY_STORY = pytest.mark.parametrize(
    ("machine", "expected"), [story[1:] for story in STORIES], ids=[story[0] for story in STORIES]
)


def test_each_machine_has_its_expectation() -> None:
    assert set(EXPECTED) == set(NETWORK_MACHINES)
    assert len(EXPECTED) >= 14


@EVERY_STORY
def test_nccl_takes_these_interfaces(machine: Snapshot, expected: Expected) -> None:
    assert nccl_choice(machine).names == expected.interfaces


@EVERY_STORY
def test_nccl_takes_these_hcas(machine: Snapshot, expected: Expected) -> None:
    assert {device for device, _ in rdma_choice(machine).taken} == set(expected.hcas)


@EVERY_STORY
def test_gpu_direct_rdma_is_used_between(machine: Snapshot, expected: Expected) -> None:
    found: dict[int, tuple[str, ...]] = {}
    for verdict in verdicts(machine):
        assert verdict.used is not None, verdict
        if verdict.used and verdict.device in expected.hcas:
            found[verdict.gpu] = (*found.get(verdict.gpu, ()), verdict.device)
    assert found == expected.gpu_direct


@EVERY_STORY
def test_problems(machine: Snapshot, expected: Expected) -> None:
    found = [result for result in judged(machine).results if result.group in ("network", "nccl")]
    assert {result.check for result in found if result.problems} == expected.problems
    assert [result for result in found if result.outcome in ("skipped", "crashed")] == []


@EVERY_STORY
def test_env_for_two_nodes(machine: Snapshot, expected: Expected) -> None:
    advice = suggest(machine, nodes=2, debug=False)
    assert {suggestion.name: suggestion.value for suggestion in advice.suggestions} == expected.environment
    assert advice.suggestions or advice.silent


@EVERY_STORY
def test_env_for_one_node_is_empty(machine: Snapshot, expected: Expected) -> None:
    advice = suggest(machine, nodes=1, debug=False)
    assert {suggestion.name: suggestion.value for suggestion in advice.suggestions} == {}
    assert advice.silent


LINES = {
    "network-dgx-h100": "8x InfiniBand 400 Gb/s and 2x RoCE 200 Gb/s (mlx5_0, mlx5_1, mlx5_3 and 7 more)",
    "network-roce-bonded": "4x RoCE 200 Gb/s (mlx5_bond_0, mlx5_bond_1, mlx5_bond_2 and 1 more)",
    "network-roce-without-v2": "1x RoCE 200 Gb/s (mlx5_0)",
    "network-subnet-manager-gone": "TCP on eno1",
    "network-efa": "TCP on ens32, ens65, ens98 and 1 more",
    "network-efa-with-plugin": (
        "the plugin libnccl-net-ofi.so, where it finds a device; else TCP on ens32, ens65, ens98 and 1 more"
    ),
    "network-laptop": "TCP on wlp1s0",
}


@pytest.mark.parametrize("name", LINES)
def test_the_report_says_what_nccl_goes_over(name: str) -> None:
    line = f"NCCL between nodes: {LINES[name]}"
    assert network_line(NETWORK_MACHINES[name]()) == line
    assert line.split(" (")[0] in " ".join(report_of(NETWORK_MACHINES[name]()).split())


def test_the_report_says_what_the_environment_forces() -> None:
    def line(**variables: str) -> str:
        machine = h100_node()
        return network_line(structs.replace(machine, environment=read("environment", dict(variables))))

    assert line(NCCL_NET="Socket") == "NCCL between nodes: TCP on eth0"
    assert line(NCCL_IB_DISABLE="1") == "NCCL between nodes: TCP on eth0"
    assert "nothing: NCCL_NET is IB" in line(NCCL_NET="IB", NCCL_IB_DISABLE="1")
    assert "calls itself Libfabric" in line(NCCL_NET="Libfabric")


def test_an_unknown_network_is_said_to_be_unknown() -> None:
    machine = with_network(h100_node(), rdma_devices=missing("/sys/class/infiniband", "permission denied", "denied"))
    assert network_line(machine) == "NCCL between nodes: unknown (/sys/class/infiniband: permission denied)"


def test_nothing_is_said_without_gpus_or_of_a_snapshot_without_network() -> None:
    assert network_line(node(())) == ""
    assert network_line(Snapshot(nvidia=h100_node().nvidia)) == ""


@EVERY_STORY
def test_redacted_it_gets_the_same_verdicts(machine: Snapshot, expected: Expected) -> None:
    def outcomes(snapshot: Snapshot) -> list[tuple[str, str, int]]:
        return [(result.check, result.outcome, len(result.problems)) for result in judged(snapshot).results]

    assert outcomes(redact(machine)) == outcomes(machine)
    assert nccl_choice(redact(machine)).names == expected.interfaces


@pytest.mark.parametrize("name", ["network-efa", "network-subnet-manager-gone", "network-container-without-infiniband"])
def test_env_does_not_call_a_broken_fabric_right(name: str) -> None:
    silent = suggest(NETWORK_MACHINES[name](), nodes=2, debug=False).silent
    assert "right" not in silent and "gpudoctor check network" in silent
