"""Reading NCCL's log: each line in the wordings of 2.18 to 2.30, and texts that are no log."""

import sys

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.nccl.log import (
    Adapter,
    Choice,
    LogFacts,
    PeerPath,
    SocketInterface,
    algorithm_name,
    protocol_name,
    read_log,
)
from tests.nccl_runs import log_of, record


@pytest.mark.parametrize(
    ("line", "version", "cuda"),
    [
        ("NCCL version 2.21.5+cuda12.4", "2.21.5", "12.4"),
        ("NCCL version 2.27.5+cuda12.9", "2.27.5", "12.9"),
        ("NCCL version 2.30.7+cuda13.0", "2.30.7", "13.0"),
        (record("NCCL version 2.18.3+cuda12.1"), "2.18.3", "12.1"),
        ("n01:1:1 [0] NCCL INFO cudaDriverVersion 12040NCCL version 2.21.5+cuda12.4", "2.21.5", "12.4"),
    ],
)
def test_version(line: str, version: str, cuda: str) -> None:
    facts = read_log(line + "\n")
    assert (facts.version, facts.cuda_version) == (version, cuda)


@pytest.mark.parametrize("wording", ["Bootstrap : Using eth0:10.0.0.1<0>", "Bootstrap: Using eth0:10.0.0.1<0>"])
def test_bootstrap_interface(wording: str) -> None:
    assert read_log(log_of(wording)).bootstrap == SocketInterface("eth0", "10.0.0.1")


def test_bootstrap_over_ipv6() -> None:
    facts = read_log(log_of("Bootstrap: Using eth0:fe80::1%eth0<0>"))
    assert facts.bootstrap == SocketInterface("eth0", "fe80::1%eth0")


@pytest.mark.parametrize("network", ["IB", "Socket", "AWS Libfabric", "Libfabric", "FasTrak"])
def test_network(network: str) -> None:
    assert read_log(log_of(f"Using network {network}")).network == network


def test_adapters() -> None:
    facts = read_log(
        log_of("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
    )
    assert facts.adapters == (Adapter(0, "mlx5_0", 1, "IB"), Adapter(1, "mlx5_bond_1", 1, "RoCE"))
    assert facts.out_of_band == SocketInterface("eth0", "10.0.0.1")


def test_adapters_with_rail_and_plane() -> None:
    facts = read_log(log_of("NET/IB : Using [0]mlx5_0:1:5/IB [1]mlx5_1:1:6:2/RoCE [RO]; OOB eth0:10.0.0.1<0>"))
    assert facts.adapters == (Adapter(0, "mlx5_0", 1, "IB"), Adapter(1, "mlx5_1", 1, "RoCE"))


def test_merged_adapters_of_2_20_to_2_23() -> None:
    facts = read_log(
        log_of("NET/IB : Using [0]mlx5_9:2/IB [1]={[1] mlx5_1:1/RoCE, [2] mlx5_2:1/RoCE} ; OOB e:1.2.3.4<0>")
    )
    assert set(facts.adapters) == {
        Adapter(0, "mlx5_9", 2, "IB"),
        Adapter(1, "mlx5_1", 1, "RoCE"),
        Adapter(1, "mlx5_2", 1, "RoCE"),
    }


def test_socket_interfaces() -> None:
    facts = read_log(log_of("NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>"))
    assert facts.socket_interfaces == (SocketInterface("eth0", "10.0.0.1"), SocketInterface("eth1", "10.0.1.1"))


PATHS = [
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", PeerPath(0, 1, "P2P/CUMEM")),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", PeerPath(0, 1, "P2P/CUMEM")),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read/CE", PeerPath(0, 1, "P2P/IPC")),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", PeerPath(0, 1, "P2P/direct pointer")),
    ("Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]/read", PeerPath(0, 1, "P2P/indirect")),
    ("Channel 00/0 : 0[0] -> 8[0] via P2P/MNNVL", PeerPath(0, 8, "P2P/MNNVL")),
    ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", PeerPath(0, 1, "SHM/direct")),
    ("Channel 00 : 0[0] -> 1[1] via SHM/CE/direct", PeerPath(0, 1, "SHM/CE")),
    ("Channel 00 : 0[0] -> 1[1] via SHM/direct", PeerPath(0, 1, "SHM/direct")),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3/GDRDMA", PeerPath(7, 8, "NET/IB", (3,), True)),
    ("Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/3", PeerPath(7, 8, "NET/IB", (3,), False)),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3(1)/GDRDMA/Shared", PeerPath(7, 8, "NET/IB", (3,), True)),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/3(1)/GDRDMA(PCI)/Shared", PeerPath(7, 8, "NET/IB", (3,), True)),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0", PeerPath(7, 8, "NET/Socket", (0,), False)),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0/Shared", PeerPath(7, 8, "NET/Socket", (0,), False)),
    ("Channel 00/0 : 7[7] -> 8[0] [send] via NET/Lib fabric/1/GDRDMA", PeerPath(7, 8, "NET/Lib fabric", (1,), True)),
    ("Channel 00/0 : 7[1b000] -> 8[1b000] [send] via NET/IB/0", PeerPath(7, 8, "NET/IB", (0,), False)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "path"), PATHS)
def test_paths(line: str, path: PeerPath) -> None:
    assert read_log(log_of(line)).paths == (path,)


def test_channels_of_one_pair_are_counted_and_one_without_gdr_is_enough() -> None:
    facts = read_log(
        log_of(
            "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Channel 01/0 : 7[7] -> 8[0] [send] via NET/IB/1",
            "Channel 02/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        )
    )
    assert facts.paths == (
        PeerPath(0, 1, "SHM/direct"),
        PeerPath(7, 8, "NET/IB", (0, 1), False, 3),
    )
    assert facts.transports() == {"SHM", "NET"}


def test_world() -> None:
    facts = read_log(
        log_of(
            "comm 0x55d rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
            "comm 0x55e rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        )
    )
    assert (facts.ranks, facts.nodes, facts.local_ranks) == (16, 2, 8)


def test_world_of_2_18() -> None:
    facts = read_log(log_of("comm 0x55d rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 1b000 commId 0x12 - Init START"))
    assert (facts.ranks, facts.nodes) == (4, 0)


def test_choices_by_name_and_by_number() -> None:
    facts = read_log(
        log_of(
            "AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}",
            "AllReduce: 1073741824 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
            "AllGather: 1073741824 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
        )
    )
    assert facts.choices[0] == Choice("AllReduce", 1024, "Tree", "LL")
    assert facts.algorithm("AllReduce", 8 << 30) == "NVLS"
    assert facts.algorithm("AllReduce", 4096) == "Tree"
    assert facts.algorithm("AllGather", 8 << 30) == "Ring"
    assert facts.algorithm("AllReduce", 8) == ""
    old = read_log(log_of("1073741824 Bytes -> Algo 1 proto 2 time 5012.3"))
    assert old.choices == (Choice("", 1 << 30, "Ring", "Simple"),)
    assert old.algorithm("AllReduce", 1 << 30) == "Ring"


@pytest.mark.parametrize(
    ("text", "name"),
    [("NVLS_TREE", "NVLSTree"), ("5", "NVLSTree"), ("COLLNET_DIRECT", "CollnetDirect"), ("99", "99"), ("New", "New")],
)
def test_algorithm_names(text: str, name: str) -> None:
    assert algorithm_name(text) == name


def test_protocol_names() -> None:
    assert [protocol_name(text) for text in ("LL", "1", "SIMPLE", "²")] == ["LL", "LL128", "Simple", "²"]


def test_nvls_and_gdr() -> None:
    facts = read_log(
        log_of(
            "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
            "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'",
        )
    )
    assert (facts.nvls_available, facts.nvls_channels) == (True, 16)
    assert facts.gdr_adapters == {"mlx5_0": True, "mlx5_1": False}
    assert read_log(log_of("NVLS multicast support is not available on dev 0")).nvls_available is False


def test_settings() -> None:
    facts = read_log(
        log_of(
            "NCCL_IB_DISABLE set by environment to 1.",
            "NCCL_SOCKET_IFNAME set by environment to =eth0",
            "NCCL_COLLNET_ENABLE set by environment to 0.",
            "NCCL_TOPO_FILE set by environment to /etc/topo.v1.",
        )
    )
    assert facts.settings == {
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_COLLNET_ENABLE": "0",
        "NCCL_TOPO_FILE": "/etc/topo.v1.",
    }


def test_warnings_of_old_and_new_releases_each_once() -> None:
    text = (
        "\n" + record("it broke", "WARN") + "\n\n" + record("it broke", "WARN") + "\n"
        "n01:4711:4712 [0] src/init.cc:99 (fun) NCCL WARN it broke too\n"
        "2026-11-20 12:00:00 n01:4711:4712 [0] init.cc:99 NCCL WARN with a time\n"
    )
    assert read_log(text).warnings == ("it broke", "it broke too", "with a time")


def test_records_written_into_one_line() -> None:
    text = record("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM") + record("Using network IB") + "\n"
    facts = read_log(text)
    assert [path.transport.split("/")[0] for path in facts.paths] == ["P2P"]
    assert facts.network == "IB"


@pytest.mark.parametrize("line", [line for line, _ in PATHS])
def test_a_log_that_is_cut_off_anywhere(line: str) -> None:
    whole = log_of("Using network IB", line)
    for end in range(len(whole)):
        assert isinstance(read_log(whole[:end]), LogFacts)


def test_no_log_says_nothing() -> None:
    assert read_log("") == read_log("Traceback (most recent call last):\n  boom\n\0\xff") == LogFacts()


PIECES = st.sampled_from(
    [
        "Channel 00/0 : ", "0[0] -> 1[1] ", "[send] via NET/IB/", "via ", "P2P/", "SHM/", "NET/", "/GDRDMA",
        " NCCL INFO ", " NCCL WARN ", "\n", "NCCL version ", "NET/IB : Using ", "[0]mlx5_0:1/IB",
        "={", "}", "comm 0x1 rank 0 nRanks ",
        " Bytes -> Algo ", " proto ", " set by environment to ", "NCCL_X",
        "99999999999999999999", "\0", "²", "Bootstrap: Using",
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=20), max_size=60).map("".join))
def test_any_text_is_read(text: str) -> None:
    facts = read_log(text)
    assert facts.ranks >= 0
    assert all(path.channels > 0 for path in facts.paths)


@given(st.binary(max_size=2000))
def test_any_bytes_are_read(raw: bytes) -> None:
    read_log("n NCCL INFO " + raw.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "part",
    [
        "n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA\n",
        " NCCL INFO NET/NET/NET/",
        " NCCL INFO NET/IB : Using [0]={[0] a:1/IB",
        "x" * 64,
    ],
)
def test_megabytes_take_no_more_than_their_share(part: str) -> None:
    """Work is counted, not time: calls of functions grow with the text and no faster."""

    def steps(text: str) -> int:
        count = 0

        def tick(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(tick)
        try:
            read_log(text)
        finally:
            sys.setprofile(None)
        return count

    small, large = part * 2000, part * 8000
    assert steps(large) <= 5 * steps(small) + 1000
