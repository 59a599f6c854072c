"""What host checks know of jobs, switches and sentences."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.job import is_loopback, is_multi_node
from gpudoctor.knowledge.network.pcie_peers import redirecting_switch_ports
from gpudoctor.knowledge.wording import ago, counted, listed, ranges, size
from gpudoctor.snapshot import AcsBridge


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"SLURM_NNODES": "1", "MASTER_ADDR": "node-1"}, False),
        ({"SLURM_NNODES": "4"}, True),
        ({"SLURM_JOB_NUM_NODES": "2"}, True),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1"}, False),
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, True),
        ({"MASTER_ADDR": "10.0.0.1"}, True),
        ({"MASTER_ADDR": "localhost"}, False),
        ({"MASTER_ADDR": "127.0.0.1"}, False),
        ({"MASTER_ADDR": "::1"}, False),
        ({"MASTER_ADDR": ""}, False),
        ({"SLURM_NNODES": "2-4", "WORLD_SIZE": "many", "LOCAL_WORLD_SIZE": "8"}, False),
    ],
)
def test_environments_of_several_nodes(environment: dict[str, str], several: bool) -> None:
    assert is_multi_node(environment) is several


@given(st.dictionaries(st.sampled_from(["SLURM_NNODES", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]), st.text()))
def test_no_environment_raises(environment: dict[str, str]) -> None:
    assert is_multi_node(environment) in (True, False)


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.1.1", True), ("::1", True), ("fe80::1%eth0", False), ("10.0.0.1", False), ("localhost.localdomain", True)],
)
def test_loopback(address: str, own: bool) -> None:
    assert is_loopback(address) is own


def test_only_ports_inside_a_switch_matter() -> None:
    root_ports = [AcsBridge("0000:00:01.0", True), AcsBridge("0000:17:00.0", True), AcsBridge("0000:40:01.1", True)]
    assert redirecting_switch_ports(root_ports) == []
    switch = [AcsBridge("0000:18:00.0", False), AcsBridge("0000:19:00.0", True), AcsBridge("0000:19:01.0", True)]
    assert redirecting_switch_ports(root_ports + switch) == ["0000:19:00.0", "0000:19:01.0"]
    # bus 19 of another domain has nothing to do with it
    assert redirecting_switch_ports([*switch[:1], AcsBridge("0001:19:00.0", True)]) == []


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_ranges_say_every_number_once(numbers: set[int]) -> None:
    said: list[int] = []
    for span in filter(None, ranges(numbers).split(",")):
        first, _, last = span.partition("-")
        said += range(int(first), int(last or first) + 1)
    assert said == sorted(numbers)


def test_sentences() -> None:
    assert [size(n) for n in (0, 1023, 64 * 1024**2, 1536 * 1024**2, 81559 * 1024**2, 2048 * 1024**3)] == [
        "0 bytes",
        "1023 bytes",
        "64 MiB",
        "1.5 GiB",
        "79.6 GiB",
        "2 TiB",
    ]
    assert (listed([]), listed("a"), listed("abc"), listed("abcdef", 2)) == ("", "a", "a, b and c", "a, b and 4 more")
    assert (ago(0.4), ago(61), ago(7200), ago(90000)) == ("0 seconds ago", "1 minute ago", "2 hours ago", "1 day ago")
    assert (counted(1, "GPU"), counted(2, "process", "processes")) == ("1 GPU", "2 processes")
