"""What published runs reach over each kind of link: bus bandwidth of large messages, GB/s (1e9 bytes).

Each row names its source (an issue, a bench's README or a vendor's health check). `reached` is the range that healthy
machines were seen at; `alarm` is a line below which a vendor's health check raises an alarm, where nothing better is
published. A link that is not here is not graded: a guess would call healthy machines broken.
"""

import itertools
from typing import Literal, NamedTuple

Way = Literal["ring", "nvls"]
"""ring: all_gather, reduce_scatter, and all_reduce by rings. nvls: all_reduce that the NVSwitch adds up."""

HEALTHY = 0.9
DEGRADED = 0.6
"""Of what is reached: healthy from 90%, degraded from 60%, broken below. Our rule of thumb: published runs on machines
of one kind differ by a few percent, and NVIDIA's and Azure's own alarm lines lie at 80 to 99% of what is reached."""


class Expected(NamedTuple):
    """What to expect of a link."""

    peak: float
    """By the wire, one direction, GB/s."""
    reached: float
    """The lower end of what healthy machines reach; the alarm line where only that is published."""
    highest: float
    source: str
    """ "8 x H100 through NVSwitch: 360 to 370 GB/s by rings; nccl-tests#212"."""
    only_alarm: bool = False
    """`reached` is an alarm line: what lies above it is healthy, however close."""

    @property
    def healthy_from(self) -> float:
        return self.reached if self.only_alarm else HEALTHY * self.reached

    @property
    def broken_below(self) -> float:
        return self.healthy_from * DEGRADED / HEALTHY


class BandwidthRow(NamedTuple):
    """Published runs inside a machine, or an NVLink domain."""

    link: str
    """ "nvswitch", "nvlink", "mnnvl", "xgmi" or "pcie"."""
    family: str
    gpus: tuple[int, int]
    """So many to so many GPUs."""
    way: Way
    peak: float
    reached: tuple[float, float]
    source: str
    alarm: bool = False


FROM_FOUR = (4, 8)
"""Rings through an NVSwitch do not get slower with fewer GPUs; the published runs have 8. Below 4 we know of none."""

ROWS: tuple[BandwidthRow, ...] = (
    BandwidthRow("nvlink", "V100", (8, 8), "ring", 150, (110, 110), "Azure's NDv2 health check", alarm=True),
    BandwidthRow("nvswitch", "A100", FROM_FOUR, "ring", 300, (230, 235), "nccl-tests#149, ml-engineering"),
    BandwidthRow("nvswitch", "H100", FROM_FOUR, "ring", 450, (360, 370), "nccl-tests#212, nccl#1442"),
    BandwidthRow("nvswitch", "H100", (8, 8), "nvls", 450, (460, 480), "nccl-tests#212, Azure's NDv5 health check"),
    BandwidthRow("nvswitch", "H200", FROM_FOUR, "ring", 450, (361, 368), "ml-engineering"),
    BandwidthRow("nvswitch", "H200", (8, 8), "nvls", 450, (480, 482), "ml-engineering"),
    BandwidthRow("nvswitch", "B200", FROM_FOUR, "ring", 900, (682, 695), "ml-engineering, nccl#2140"),
    BandwidthRow("nvswitch", "B200", (8, 8), "nvls", 900, (838, 846), "ml-engineering"),
    BandwidthRow("nvswitch", "B300", FROM_FOUR, "ring", 900, (682, 695), "nccl#2140"),
    BandwidthRow("nvswitch", "B300", (8, 8), "nvls", 900, (838, 846), "nccl#2140"),
    BandwidthRow("mnnvl", "GB200", (8, 72), "nvls", 900, (835, 847), "coreweave/nccl-tests"),
    BandwidthRow("mnnvl", "GB200", (73, 144), "nvls", 900, (820, 820), "coreweave/nccl-tests"),
    BandwidthRow("mnnvl", "GB300", (8, 72), "nvls", 900, (800, 937), "Azure's GB300 health check", alarm=True),
    BandwidthRow("xgmi", "MI300X", (8, 8), "ring", 448, (313, 314), "ml-engineering"),
    BandwidthRow("nvlink", "A100", (2, 2), "ring", 300, (193, 193), "Azure's NC A100 health check", alarm=True),
    BandwidthRow("nvlink", "H100 NVL", (2, 2), "ring", 300, (208, 208), "Azure's NC H100 health check", alarm=True),
    # Where the cards share switches more is reached, through the CPU less; the lower end is what nobody should miss.
    BandwidthRow("pcie", "A100", (4, 4), "ring", 31.5, (10, 25), "nccl#841, Azure's NC A100 health check"),
    BandwidthRow("pcie", "RTX 5090", (8, 8), "ring", 63, (28, 28), "nccl#1639"),
    BandwidthRow("pcie", "RTX 5090", (4, 4), "ring", 63, (35, 35), "nccl#1639"),
)

WORDS = {
    "nvswitch": "through NVSwitch",
    "nvlink": "over NVLink",
    "mnnvl": "in one NVLink domain",
    "xgmi": "over Infinity Fabric",
    "pcie": "over PCIe",
}
WAYS: dict[Way, str] = {"ring": "by rings", "nvls": "when the NVSwitch reduces (NVLS)"}


def inside(link: str, family: str, gpus: int, way: Way) -> Expected | None:
    """What so many GPUs of a family reach over a link; None where nothing is published."""
    for row in ROWS:
        if (row.link, row.family, row.way) == (link, family, way) and row.gpus[0] <= gpus <= row.gpus[1]:
            who = f"{row.gpus[1]} x {row.family} {WORDS[row.link]}"
            return _expected(row.peak, row.reached, f"{who}", WAYS[row.way], row.source, row.alarm)
    return None


class NicRow(NamedTuple):
    """Published runs between machines with RDMA and GPUDirect, by what each machine has."""

    ports: int
    rate_gbps: float
    reached: tuple[float, float]
    source: str


NICS: tuple[NicRow, ...] = (
    NicRow(1, 100, (12.0, 12.2), "nccl-tests#29, nccl-tests#119"),
    NicRow(1, 200, (24.0, 24.0), "nccl-tests#119, nccl#1048"),
    NicRow(4, 100, (48.0, 48.0), "nccl-tests#29"),
    NicRow(4, 200, (86.0, 91.0), "nccl#1048, nccl-tests#100"),
    NicRow(8, 200, (192.0, 192.0), "nccl#812, nccl#778"),
    # Rings over 8 NDR ports end at the GPUs' NVLinks on H100; 386 was with SHARP, 377 to 382 on 8 x 400G EFA.
    NicRow(8, 400, (300.0, 386.0), "coreweave/nccl-tests, Azure's health check, ml-engineering"),
)
NIC_SHARE = 0.86
"""Least share of the line rate in the rows above, for numbers of ports that nobody has published."""
WITHOUT_GPU_DIRECT = 0.36
"""Share of the line rate that is left without GPUDirect RDMA: 6 of 12.5 (nccl#465), 33 where 93 were (nccl#1412)."""

SLOW_TCP_GBPS = 25.0
SLOW_TCP_SHARE = 2 / 3
"""No table is published for TCP; healthy is what reaches 60% of the interface's speed, which is 90% of this."""
FAST_TCP_GBPS = 100.0
FAST_TCP = (4.0, 6.0)
"""One flow does not fill 100 GbE: nccl#450."""


def between_rdma(rates_gbps: tuple[float, ...], gpu_direct: bool) -> Expected | None:
    """What machines with ports of these rates reach; None without a port."""
    if not rates_gbps:
        return None
    total = sum(rates_gbps) / 8
    words = f"{len(rates_gbps)} x {rates_gbps[0]:g} Gb/s" if len(set(rates_gbps)) == 1 else f"{sum(rates_gbps):g} Gb/s"
    if not gpu_direct:
        reached = WITHOUT_GPU_DIRECT * total, 0.48 * total
        return _expected(total, reached, f"{words} without GPUDirect RDMA", "", "nccl#465, nccl#1412")
    for row in NICS:
        if rates_gbps == (row.rate_gbps,) * row.ports:
            return _expected(total, row.reached, f"{words} with GPUDirect RDMA", "", row.source)
    reached = NIC_SHARE * total, 0.97 * total
    return _expected(total, reached, f"{words}", "", "86 to 97% of the line rate in published runs")


def between_tcp(speed_gbps: float) -> Expected | None:
    """What TCP over one interface reaches; None for speeds of which nothing is known."""
    peak = speed_gbps / 8
    if speed_gbps <= SLOW_TCP_GBPS:
        share = SLOW_TCP_SHARE * peak
        return Expected(
            peak,
            share,
            peak,
            f"our rule of thumb: TCP reaches 60% of {speed_gbps:g} Gb/s or more; no table is published",
        )
    if speed_gbps == FAST_TCP_GBPS:
        return _expected(peak, FAST_TCP, "TCP over 100 Gb/s", "", "nccl#450")
    return None


def _expected(
    peak: float, reached: tuple[float, float], who: str, how: str, source: str, alarm: bool = False
) -> Expected:
    low, high = reached
    if alarm:
        return Expected(peak, low, high, f"{who}: alarm below {low:.3g} GB/s; {source}", only_alarm=True)
    amount = f"{low:.3g} GB/s" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} GB/s"
    return Expected(peak, low, high, f"{who}: {amount}{f' {how}' if how else ''}; {source}")


CURVE = ((64 * 2**20, 0.72), (512 * 2**20, 0.93), (2**30, 1.0))
"""Size -> share of the plateau on 8 x H200 (ml-engineering: 347 at 64 MiB, 450 at 512 MiB, 482 at 16 GiB). Slower links
come closer to theirs at these sizes, so this errs on the side of healthy."""
LEAST_SIZE = CURVE[0][0]
"""Below it, latency decides and not the link: not graded."""


def asked(size_bytes: int, ranks: int) -> int:
    """The size asked for: equal parts of whole 16 bytes leave less than 16 bytes a rank of it (6 ranks: 64 MiB become
    67,108,800 bytes)."""
    parts = 16 * ranks
    mib = 2**20
    whole = -(-size_bytes // mib) * mib
    return whole if whole - size_bytes < parts else size_bytes


def share_at(size_bytes: int) -> float:
    """How much of what is reached at 1 GiB may be expected at a size of 64 MiB or more."""
    for (size, share), (larger, more) in itertools.pairwise(CURVE):
        if size_bytes < larger:
            return share + (more - share) * max(0, size_bytes - size) / (larger - size)
    return 1.0


def at_size(expected: Expected, size_bytes: int) -> Expected:
    """The expectation at a size."""
    share = share_at(size_bytes)
    return expected._replace(reached=expected.reached * share, highest=expected.highest * share)
