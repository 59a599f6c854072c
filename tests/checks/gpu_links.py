"""Cases of the checks of PCIe, NVLink, fabric and peer-to-peer in checks/gpudoctor_checks/gpu/."""

from gpudoctor.snapshot import (
    Fabric,
    NvLink,
    read,
)
from tests.build import (
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090,
    rtx_4090_node,
    t4,
    t4_node,
    unread,
)
from tests.cases import Case
from tests.gpu_machines import (
    LOST,
    MIG_A100,
    a100_pcie,
    every,
    in_vm,
    laptop,
    links,
    one,
    peers,
    rtx_3070_node,
    without_nvidia,
    without_switches,
)

CASES = [
    Case(
        "pcie-link-narrow",
        fires=one(pcie_width=nvml(8)),
        silent=laptop(),
        unread=one(pcie_width=unread()),
        severity="warning",
        says=("GPU 3 (0000:4b:00.0)", "x8", "x16"),
        commands=("sudo lspci -vv -s 0000:4b:00.0 | grep LnkSta",),
    ),
    Case(
        "pcie-link-narrow",
        fires=but_gpu(rtx_4090_node(), 0, pcie_width=nvml(1)),
        silent=in_vm(one(pcie_width=nvml(8))),
        unread=but(one(pcie_width=nvml(8)), "host.virtualization", unread()),
        severity="warning",
    ),
    Case(
        "pcie-link-narrow",
        fires=one(pcie_width=nvml(1)),
        silent=node((gpu(0, name=nvml("NVIDIA GB10"), pcie_width=nvml(1)),)),
        severity="warning",
    ),
    Case(
        "pcie-link-uneven",
        fires=but_gpu(rtx_4090_node(), 2, pcie_generation_max=nvml(3), pcie_width=nvml(8), pcie_width_max=nvml(8)),
        # Idle GPUs lower their generation each for itself.
        silent=but_gpu(rtx_4090_node(), 2, pcie_generation=nvml(4)),
        unread=but_gpu(rtx_4090_node(), 2, pcie_width_max=unread()),
        severity="warning",
        says=("GPU 2", "generation 3 x8", "GPUs 0-1,3", "generation 4 x16"),
    ),
    Case(
        "pcie-link-uneven",
        fires=but_gpu(one(pcie_generation_max=LOST), 5, pcie_generation_max=nvml(4)),
        severity="warning",
        says=("GPU 5",),
    ),
    Case("pcie-link-uneven", fires=rtx_3070_node(), severity="info", says=("GPU 1", "x4")),
    Case(
        "pcie-replays",
        fires=one(pcie_replays=nvml(100_000)),
        silent=one(pcie_replays=nvml(30_000)),
        unread=but(one(pcie_replays=nvml(100_000)), "host.uptime_seconds", unread()),
        severity="warning",
        says=("100000 PCIe replays", "23 a minute"),
    ),
    Case(
        "pcie-replays",
        fires=one(pcie_replays=nvml(1000_000)),
        silent=but(one(pcie_replays=nvml(60)), "host.uptime_seconds", read("/proc/uptime", 40.0)),
        unread=one(pcie_replays=unread()),
        severity="warning",
    ),
    Case(
        "nvlink-errors",
        fires=one(nvlinks=nvml((NvLink(0, True, "switch"), NvLink(5, True, "switch", "", 3, 1, 70)))),
        silent=one(nvlinks=nvml((NvLink(0, True, "switch", "", 0, 0, 12),))),
        unread=one(nvlinks=unread()),
        severity="warning",
        says=("GPU 3", "3 replays and 1 recoveries on NVLink 5", "70 CRC"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(16)),
        silent=node(tuple(a100_pcie(index, 0) for index in range(4))),
        unread=one(nvlinks=unread()),
        says=("GPU 3 (0000:4b:00.0) has 16 active", "have 18", "down: 16-17"),
    ),
    Case(
        "nvlink-inactive",
        fires=every(h100_node(), nvlinks=links(0)),
        # One module of a baseboard, handed to a virtual machine without its switches.
        silent=in_vm(without_switches(but_gpu(h100_node(1), 0, nvlinks=links(0)))),
        unread=but(every(h100_node(), nvlinks=links(0)), "accelerators.pci", unread()),
        says=("GPUs 0-7", "no NVLink is active"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(0)),
        # Two cards with a bridge and a third without.
        silent=node((a100_pcie(0, 12), a100_pcie(1, 12), a100_pcie(2, 0))),
        says=("GPU 3", "0 active"),
    ),
    Case(
        "nvlink-inactive",
        fires=but_gpu(node(tuple(a100_pcie(index, 12) for index in range(4))), 2, nvlinks=links(8, 12, "gpu")),
        # MIG switches a GPU's links off.
        silent=node(
            (
                *(gpu(n, **(MIG_A100 | {"nvlinks": links(12, 12), "mig_mode": nvml(False)})) for n in range(3)),
                gpu(3, **MIG_A100),
            )
        ),
        says=("GPU 2", "8 active"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(17)),
        # PCIe cards beside a board with NVSwitches: their links need a bridge.
        silent=but(
            node(tuple(a100_pcie(index, 0) for index in range(2))), "accelerators.pci", h100_node().accelerators.pci
        ),
    ),
    Case(
        "fabric-not-ready",
        fires=every(h100_node(), fabric=nvml(Fabric(2, 0))),
        silent=node(tuple(gpu(n, name=nvml("NVIDIA H100 PCIe"), fabric=nvml(Fabric(1, 0))) for n in range(2))),
        unread=one(fabric=unread()),
        says=("GPUs 0-7", "in progress"),
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(3, 999))),
        # The fabric of a superchip is the rack's; IMEX is not needed on a single node (NVSentinel #1471).
        silent=node(tuple(gpu(n, name=nvml("NVIDIA GB200"), fabric=nvml(Fabric(1, 0))) for n in range(4))),
        says=("NVML error 999",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(1, 0))),
        silent=but_gpu(h100_node(1), 0, fabric=nvml(Fabric(1, 0))),
        says=("has not started",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(3, 0, 0x9A))),  # a route is unhealthy
        silent=every(h100_node(), fabric=nvml(Fabric(3, 0, 0xAA))),  # the mask of a healthy H100
        severity="warning",
        says=("an unhealthy route",),
    ),
    Case(
        "fabric-not-ready",
        fires=node(tuple(gpu(n, name=nvml("NVIDIA GB200"), fabric=nvml(Fabric(3, 0, 0xA9))) for n in range(4))),
        severity="warning",
        says=("degraded bandwidth",),
        times=4,
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(1, 0))),
        silent=every(h100_node(), fabric=nvml(Fabric(0, 0))),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(t4_node(), "topology-not-supported"),
        unread=but(t4_node(), "nvidia.peers", unread()),
        severity="warning",
        says=("2 of 2 directions", "GPUs 0-1", "topology"),
        commands=("nvidia-smi topo -p2p r",),
    ),
    # GeForce cards are sold without peer-to-peer: nothing to repair.
    Case("p2p-unavailable", fires=peers(rtx_4090_node(), "chipset-not-supported"), severity="info", says=("12 of 12",)),
    Case("p2p-unavailable", fires=in_vm(peers(t4_node(), "gpu-not-supported")), severity="info"),
    # DGX-1: no way from a GPU of one socket to most of the other's; within a socket it would be a fault.
    Case(
        "p2p-unavailable",
        fires=peers(node((t4(0), t4(4))), "topology-not-supported"),
        severity="info",
        says=("2 of 2 directions",),
    ),
    Case("p2p-unavailable", fires=peers(node((t4(0), t4(4))), "disabled-by-registry"), severity="warning"),
    Case("p2p-unavailable", fires=peers(node((gpu(0), gpu(4))), "topology-not-supported"), severity="warning"),
    Case("p2p-unavailable", fires=peers(node((t4(0), t4(1), t4(4))), "topology-not-supported"), severity="warning"),
    Case(
        "p2p-unavailable",
        fires=node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"),
        silent=but(
            node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"),
            "environment",
            read("environment of gpudoctor", {"NCCL_P2P_DISABLE": "1"}),
        ),
        unread=but(node(tuple(rtx_4090(n) for n in range(2))), "nvidia.driver_version", unread()),
        severity="warning",
        says=("545.23.08", "550.40.07"),
        commands=("export NCCL_P2P_DISABLE=1",),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(h100_node(2), "disabled-by-registry"),
        # MIG devices reach no peers, and two models need not reach each other.
        silent=peers(node((gpu(0, **MIG_A100), gpu(1, **MIG_A100), t4(2))), "not-supported"),
        severity="warning",
        says=("driver option",),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(t4_node(), "unknown"),
        silent=node((rtx_4090(0), t4(1)), driver="545.23.08"),  # one RTX 40 has no peer
        severity="warning",
    ),
]

CASES += [
    case._replace(silent=without_nvidia(), unread=None)
    for case in {case.check: case for case in reversed(CASES)}.values()
]
"""On a machine without an NVIDIA GPU, none of them applies."""
