"""Cases of the checks of PCIe, NVLink, fabric and peer-to-peer in checks/gpudoctor_checks/gpu/."""

from gpudoctor.snapshot import Fabric, NvLink
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import (
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
    without_switches,
)

CASES = {
    "pcie-link-narrow": [
        warning(
            one(pcie_width=8), "GPU 3 (0000:4b:00.0)", "x8", "x16", runs="sudo lspci -vv -s 0000:4b:00.0 | grep LnkSta"
        ),
        silent(laptop()),
        warning(but(one(pcie_width=8), "host.virtualization", unread())),
        skipped(one(pcie_width=unread())),
    ],
    "pcie-link-uneven": [
        warning(
            but_gpu(rtx_4090_node(), 2, pcie_generation_max=3, pcie_width=8, pcie_width_max=8),
            "GPU 2",
            "generation 3 x8",
            "GPUs 0-1,3",
            "generation 4 x16",
        ),
        warning(but_gpu(one(pcie_generation_max=LOST), 5, pcie_generation_max=4), "GPU 5"),
        info(rtx_3070_node(), "GPU 1", "x4"),
        # Idle GPUs lower their generation each for itself.
        silent(but_gpu(rtx_4090_node(), 2, pcie_generation=4)),
        skipped(but_gpu(rtx_4090_node(), 2, pcie_width_max=unread())),
    ],
    "pcie-replays": [
        warning(one(pcie_replays=100_000), "100000 PCIe replays", "23 a minute"),
        silent(one(pcie_replays=30_000)),
        skipped(but(one(pcie_replays=100_000), "host.uptime_seconds", unread())),
        skipped(one(pcie_replays=unread())),
    ],
    "nvlink-errors": [
        warning(
            one(nvlinks=(NvLink(0, True, "switch"), NvLink(5, True, "switch", "", 3, 1, 70))),
            "GPU 3",
            "3 replays and 1 recoveries on NVLink 5",
            "70 CRC",
        ),
        silent(one(nvlinks=(NvLink(0, True, "switch", "", 0, 0, 12),))),
        skipped(one(nvlinks=unread())),
    ],
    "nvlink-inactive": [
        error(one(nvlinks=links(16)), "GPU 3 (0000:4b:00.0) has 16 active", "have 18", "down: 16-17"),
        error(every(h100_node(), nvlinks=links(0)), "GPUs 0-7", "no NVLink is active"),
        error(one(nvlinks=links(0)), "GPU 3", "0 active"),
        # One module of a baseboard, handed to a virtual machine without its switches.
        silent(in_vm(without_switches(but_gpu(h100_node(1), 0, nvlinks=links(0))))),
        # Two cards with a bridge and a third without.
        silent(node((a100_pcie(0, 12), a100_pcie(1, 12), a100_pcie(2, 0)))),
        # MIG switches a GPU's links off.
        silent(
            node(
                (
                    *(gpu(n, **(MIG_A100 | {"nvlinks": links(12, 12), "mig_mode": nvml(False)})) for n in range(3)),
                    gpu(3, **MIG_A100),
                )
            )
        ),
        # PCIe cards beside a board with NVSwitches: their links need a bridge.
        silent(
            but(
                node(tuple(a100_pcie(index, 0) for index in range(2))), "accelerators.pci", h100_node().accelerators.pci
            )
        ),
        skipped(but(every(h100_node(), nvlinks=links(0)), "accelerators.pci", unread())),
    ],
    "fabric-not-ready": [
        error(
            every(h100_node(), fabric=Fabric(2, 0)),
            "GPUs 0-7",
            "in progress",
            runs="sudo systemctl enable --now nvidia-fabricmanager",
        ),
        error(one(fabric=Fabric(3, 999)), "NVML error 999"),
        error(one(fabric=Fabric(1, 0)), "has not started"),
        warning(one(fabric=Fabric(3, 0, 0x9A)), "an unhealthy route"),  # a route is unhealthy
        warning(
            node(tuple(gpu(n, name="NVIDIA GB200", fabric=Fabric(3, 0, 0xA9)) for n in range(4))),
            "degraded bandwidth",
            times=4,
        ),
        silent(node(tuple(gpu(n, name="NVIDIA H100 PCIe", fabric=Fabric(1, 0)) for n in range(2)))),
        # The fabric of a superchip is the rack's; IMEX is not needed on a single node (NVSentinel #1471).
        silent(node(tuple(gpu(n, name="NVIDIA GB200", fabric=Fabric(1, 0)) for n in range(4)))),
        silent(every(h100_node(), fabric=Fabric(3, 0, 0xAA))),  # the mask of a healthy H100
        silent(every(h100_node(), fabric=Fabric(0, 0))),
        skipped(one(fabric=unread())),
    ],
    "p2p-unavailable": [
        warning(
            peers(t4_node(), "topology-not-supported"),
            "2 of 2 directions",
            "GPUs 0-1",
            "topology",
            runs="nvidia-smi topo -p2p r",
        ),
        # GeForce cards are sold without peer-to-peer: nothing to repair.
        info(peers(rtx_4090_node(), "chipset-not-supported"), "12 of 12"),
        # DGX-1: no way from a GPU of one socket to most of the other's; within a socket it would be a fault.
        info(peers(node((t4(0), t4(4))), "topology-not-supported"), "2 of 2 directions"),
        warning(peers(node((gpu(0), gpu(4))), "topology-not-supported")),
        warning(
            node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"),
            "545.23.08",
            "550.40.07",
            runs="export NCCL_P2P_DISABLE=1",
        ),
        warning(peers(h100_node(2), "disabled-by-registry"), "driver option"),
        silent(
            but(
                node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"), "environment", {"NCCL_P2P_DISABLE": "1"}
            )
        ),
        # MIG devices reach no peers, and two models need not reach each other.
        silent(peers(node((gpu(0, **MIG_A100), gpu(1, **MIG_A100), t4(2))), "not-supported")),
        silent(node((rtx_4090(0), t4(1)), driver="545.23.08")),  # one RTX 40 has no peer
        skipped(but(t4_node(), "nvidia.peers", unread())),
        skipped(but(node(tuple(rtx_4090(n) for n in range(2))), "nvidia.driver_version", unread())),
    ],
}
