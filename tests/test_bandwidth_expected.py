"""The table of published bandwidths: every row, what lies between the rows, and what is not published."""

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.bandwidth.expected import (
    LEAST_SIZE,
    ROWS,
    Way,
    at_size,
    between_rdma,
    between_tcp,
    inside,
    share_at,
)
from gpudoctor.knowledge.bandwidth.families import family, nvlink_words
from gpudoctor.knowledge.wording import GIB, MIB

PUBLISHED: list[tuple[str, str, int, Way, float, float]] = [
    # link, family, GPUs, way, least that is reached, GB/s of the wire; from the sources that the rows name
    ("nvlink", "V100", 8, "ring", 110, 150),
    ("nvswitch", "A100", 8, "ring", 230, 300),
    ("nvswitch", "H100", 8, "ring", 360, 450),
    ("nvswitch", "H100", 4, "ring", 360, 450),
    ("nvswitch", "H100", 8, "nvls", 460, 450),
    ("nvswitch", "H200", 8, "ring", 361, 450),
    ("nvswitch", "H200", 8, "nvls", 480, 450),
    ("nvswitch", "B200", 8, "ring", 682, 900),
    ("nvswitch", "B200", 8, "nvls", 838, 900),
    ("nvswitch", "B300", 8, "ring", 682, 900),
    ("nvswitch", "B300", 8, "nvls", 838, 900),
    ("mnnvl", "GB200", 72, "nvls", 835, 900),
    ("mnnvl", "GB200", 144, "nvls", 820, 900),
    ("mnnvl", "GB300", 72, "nvls", 800, 900),
    ("xgmi", "MI300X", 8, "ring", 313, 448),
    ("nvlink", "A100", 2, "ring", 193, 300),
    ("nvlink", "H100 NVL", 2, "ring", 208, 300),
    ("pcie", "A100", 4, "ring", 10, 31.5),
    ("pcie", "RTX 5090", 8, "ring", 28, 63),
    ("pcie", "RTX 5090", 4, "ring", 35, 63),
]


@pytest.mark.parametrize(("link", "model", "gpus", "way", "reached", "peak"), PUBLISHED)
def test_published(link: str, model: str, gpus: int, way: Way, reached: float, peak: float) -> None:
    found = inside(link, model, gpus, way)
    assert found is not None
    assert (found.reached, found.peak) == (reached, peak)
    assert f"{reached:g}" in found.source and model in found.source


def test_every_row_is_tried_here() -> None:
    tried = {(link, model, way) for link, model, _, way, _, _ in PUBLISHED}
    assert tried == {(row.link, row.family, row.way) for row in ROWS}
    for row in ROWS:
        assert row.reached[0] <= row.reached[1] and row.source


@pytest.mark.parametrize(
    ("link", "model", "gpus", "way"),
    [
        ("nvswitch", "H100", 2, "ring"),
        ("nvswitch", "H100", 4, "nvls"),
        ("nvswitch", "H100", 16, "ring"),
        ("nvlink", "H100", 4, "ring"),
        ("pcie", "A100", 2, "ring"),
        ("nvswitch", "", 8, "ring"),
        ("nvswitch", "A100", 8, "nvls"),
    ],
)
def test_not_published(link: str, model: str, gpus: int, way: Way) -> None:
    assert inside(link, model, gpus, way) is None


def test_an_alarm_line_is_the_line_itself() -> None:
    alarm = inside("nvlink", "A100", 2, "ring")
    table = inside("nvswitch", "A100", 8, "ring")
    assert alarm is not None and table is not None
    assert [alarm.healthy_from, alarm.broken_below] == pytest.approx([193, 193 * 2 / 3])
    assert [table.healthy_from, table.broken_below] == pytest.approx([207, 138])


NICS = [
    ((100.0,), 12.0),
    ((200.0,), 24.0),
    ((100.0,) * 4, 48.0),
    ((200.0,) * 4, 86.0),
    ((200.0,) * 8, 192.0),
    ((400.0,) * 8, 300.0),
]


@pytest.mark.parametrize(("rates", "reached"), NICS)
def test_nics(rates: tuple[float, ...], reached: float) -> None:
    found = between_rdma(rates, gpu_direct=True)
    assert found is not None
    assert (found.reached, found.peak) == (reached, sum(rates) / 8)


def test_nics_that_nobody_published_reach_what_others_do_of_their_rate() -> None:
    found = between_rdma((400.0, 200.0), gpu_direct=True)
    assert found is not None
    assert found.reached == pytest.approx(0.86 * 75)
    assert "600 Gb/s" in found.source


def test_without_gpu_direct_a_third_is_left() -> None:
    found = between_rdma((100.0,), gpu_direct=False)
    assert found is not None
    assert found.reached == pytest.approx(4.5) and found.highest == pytest.approx(6.0)


def test_no_nic() -> None:
    assert between_rdma((), gpu_direct=True) is None


@pytest.mark.parametrize(
    ("speed", "healthy_from"), [(1.0, 0.075), (10.0, 0.75), (25.0, 1.875), (100.0, 3.6), (40.0, None), (200.0, None)]
)
def test_tcp(speed: float, healthy_from: float | None) -> None:
    found = between_tcp(speed)
    assert (found and found.healthy_from) == (healthy_from and pytest.approx(healthy_from))


@pytest.mark.parametrize(("size", "share"), [(64 * MIB, 0.72), (512 * MIB, 0.93), (GIB, 1.0), (16 * GIB, 1.0)])
def test_share_at_a_size(size: int, share: float) -> None:
    assert share_at(size) == pytest.approx(share)


@given(st.integers(LEAST_SIZE, 32 * GIB), st.integers(LEAST_SIZE, 32 * GIB))
def test_larger_messages_are_never_expected_slower(one: int, other: int) -> None:
    assert share_at(min(one, other)) <= share_at(max(one, other)) <= 1.0


@given(st.integers(LEAST_SIZE, 32 * GIB))
def test_an_expectation_keeps_its_order_at_any_size(size: int) -> None:
    for row in ROWS:
        expected = inside(row.link, row.family, row.gpus[1], row.way)
        assert expected is not None
        there = at_size(expected, size)
        assert there.broken_below < there.healthy_from <= there.reached <= there.highest


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", ""),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A100X", ""),
        ("NVIDIA A800-SXM4-80GB", ""),
        ("NVIDIA H800", ""),
        ("NVIDIA H20", ""),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GB300", "GB300"),
        ("NVIDIA GH200 480GB", ""),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA GeForce RTX 5090 D", "RTX 5090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("Tesla T4", ""),
    ],
)
def test_families(name: str, wanted: str) -> None:
    assert family(name) == wanted


def test_nvlink_generations() -> None:
    assert [nvlink_words(each) for each in ((7, 0), (8, 0), (9, 0), (10, 0), (8, 6), None)] == [
        "NVLink 2",
        "NVLink 3",
        "NVLink 4",
        "NVLink 5",
        "NVLink",
        "NVLink",
    ]
