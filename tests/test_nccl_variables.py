"""The table of NCCL's variables, and of torch's."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.nccl.variables import (
    INVENTED,
    NEWEST_IN_TABLE,
    RENAMED,
    TORCH_NAMES,
    is_known,
    nearest,
    table,
)
from gpudoctor.knowledge.pytorch import torch_variables

READ_BY_2_27_5 = (
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_COMM_ID",
    "NCCL_CONF_FILE",
    "NCCL_CROSS_NIC",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_RAS_ENABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
)


def test_every_row_is_sound() -> None:
    for name, row in table().items():
        assert name == row.name and name.startswith("NCCL_")
        assert row.since <= NEWEST_IN_TABLE
        assert row.last is None or row.last >= row.since, name
        assert row.purpose and not row.purpose.endswith("."), name
        assert [start for start, _ in row.defaults] == sorted(start for start, _ in row.defaults)
        assert row.defaults or row.kind == "text", name
    assert len(table()) > 280


@pytest.mark.parametrize("name", READ_BY_2_27_5)
def test_knows_what_nccl_2_27_5_reads(name: str) -> None:
    assert table()[name].standing((2, 27, 5)) == "read"


def test_follows_a_default_through_the_releases() -> None:
    timeout = table()["NCCL_IB_TIMEOUT"]
    assert [timeout.default(version) for version in ((2, 13, 4), (2, 14, 3), (2, 22, 3), (2, 29, 7))] == [
        14,
        18,
        18,
        20,
    ]
    assert table()["NCCL_IB_GID_INDEX"].default((2, 20, 5)) == 0
    assert table()["NCCL_IB_GID_INDEX"].default((2, 21, 5)) == -1
    assert table()["NCCL_NTHREADS"].default((2, 29, 7)) is None


def test_knows_what_is_too_new_and_what_is_gone() -> None:
    assert table()["NCCL_RAS_ENABLE"].standing((2, 21, 5)) == "too-new"
    assert table()["NCCL_WORK_FIFO_DEPTH"].standing((2, 22, 3)) == "gone"
    # what the oldest public source reads may be older than it
    assert table()["NCCL_DEBUG"].standing((2, 2, 13)) == "read"


# Strings of libnccl.so.2 of 2.32.3 (nvidia-nccl-cu13) that 2.31.2's does not hold, and the other way round.
NEW_IN_2_32 = """NCCL_CE_CHUNK_SIZE NCCL_CE_INTRA_GPU_MEMCPY_ENABLE NCCL_DEBUG_LEVELS NCCL_DIAGNOSTICS_IB_BW_TIMEOUT
NCCL_GDAKI_FORCE_MCST NCCL_GIN_GDAKI_LAG_AWARE_DISABLE NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE NCCL_IB_RAIL_POLICY
NCCL_IB_SORT_MERGE_NICS NCCL_NVLS_UB_SIZE NCCL_PROGRESS_COUNTERS NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS
NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC NCCL_RMA_IB_WR_BATCHSIZE"""
LAST_IN_2_31 = "NCCL_MLOPART_RDMA_ENABLE NCCL_NET_GDR_MLOPART NCCL_SOCKET_MAGIC NCCL_TOPO_SCATTER_START_NET"


def test_follows_the_library_from_2_31_to_2_32() -> None:
    assert {table()[name].standing((2, 31, 2)) for name in NEW_IN_2_32.split()} == {"too-new"}
    assert {table()[name].standing((2, 32, 3)) for name in NEW_IN_2_32.split()} == {"read"}
    assert {table()[name].standing((2, 31, 2)) for name in LAST_IN_2_31.split()} == {"read"}
    assert {table()[name].standing((2, 32, 3)) for name in LAST_IN_2_31.split()} == {"gone"}


def test_successors_are_variables_too() -> None:
    assert set(RENAMED) <= set(table()) and set(RENAMED.values()) <= set(table())
    known = {variable.name for variable in torch_variables.VARIABLES}
    assert set(TORCH_NAMES.values()) <= known
    assert {variable.old_name for variable in torch_variables.VARIABLES if variable.old_name} == set(TORCH_NAMES)


def test_invented_names_are_not_known() -> None:
    assert not any(is_known(name) for name in INVENTED)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_SOCKET_INFAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"),
        ("NCCL_P2P_DISBALE", "NCCL_P2P_DISABLE"),
        ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
        ("NCCL_FROBNICATE_THE_FABRIC", ""),
    ],
)
def test_finds_the_name_that_was_meant(name: str, meant: str) -> None:
    assert nearest(name) == meant


@pytest.mark.parametrize(
    "name", ["NCCL_HOME", "NCCL_VERSION", "NCCL_IBEXT_DISABLE", "NCCL_TESTS_SPLIT", "NCCL_TUNER_CONFIG_FILE",
             "NCCL_FASTRAK_CTRL_DEV", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "NCCL_INSPECTOR_ENABLE", "NCCL_ROOT_DIR"]
)  # fmt: skip
def test_leaves_the_names_of_plugins_and_images_alone(name: str) -> None:
    assert is_known(name)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("3abc", 3), (" -2", -2), ("", None), ("true", None), ("9" * 30, None)]
)
def test_reads_torchs_numbers_as_stoi(text: str, value: int | None) -> None:
    assert torch_variables.number(text) == value


@pytest.mark.parametrize(("text", "value"), [("YES", True), ("f", False), ("2", None), ("", None), ("on", None)])
def test_reads_torchs_switches_as_its_list_of_words(text: str, value: bool | None) -> None:
    assert torch_variables.switch(text) == value


@given(st.text(max_size=60))
def test_any_name_gets_an_answer(name: str) -> None:
    assert is_known(name) in (True, False)
    assert torch_variables.number(name) is None or isinstance(torch_variables.number(name), int)
