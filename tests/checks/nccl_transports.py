"""Cases of the checks in checks/gpudoctor_checks/nccl/ about transports that settings switch off or narrow."""

from gpudoctor.snapshot import Snapshot
from gpudoctor.testing.cases import info, silent, skipped, warning
from gpudoctor.testing.machines import but, h100_node, unread
from gpudoctor.testing.networks import RDMA, changed_port, rdma_device, roce_port, with_rdma
from tests.checks.nccl import H100, NO_ENVIRONMENT, RTX, T4, in_file, setting, with_nccl, without

ROCE = with_rdma(H100, rdma_device(0, roce_port(interface="eth0", address="192.0.2.11")))
TWELVE = with_rdma(H100, *(rdma_device(index) for index in range(12)))


def blind(**variables: str) -> Snapshot:
    """RDMA devices that could not be read."""
    return without(setting(**variables), rdma_devices=RDMA)


CASES = [
    warning(
        "nccl-hca-prefix-wide",
        setting(TWELVE, NCCL_IB_HCA="^mlx5_1"),
        "leaves out mlx5_10 and mlx5_11",
        runs="export NCCL_IB_HCA='^=mlx5_1'",
    ),
    silent("nccl-hca-prefix-wide", setting(TWELVE, NCCL_IB_HCA="=mlx5_0,mlx5_1")),
    silent("nccl-hca-prefix-wide", setting(TWELVE, NCCL_IB_HCA="mlx5")),
    skipped("nccl-hca-prefix-wide", blind(NCCL_IB_HCA="mlx5_1")),
    warning(
        "nccl-hca-matches-nothing",
        setting(NCCL_IB_HCA="mlx5_bond_0"),
        "mlx5_bond_0",
        "8 ACTIVE RDMA ports",
        runs="export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7'",
    ),
    silent("nccl-hca-matches-nothing", setting(NCCL_IB_HCA="mlx5_3:1")),
    skipped("nccl-hca-matches-nothing", blind(NCCL_IB_HCA="mlx5_bond_0")),
    warning(
        "nccl-ib-disabled",
        in_file(NCCL_IB_DISABLE="1"),
        "/etc/nccl.conf",
        "8 ACTIVE RDMA ports",
        "400 Gb/s",
        runs="sed -i '/^NCCL_IB_DISABLE=/d' /etc/nccl.conf",
    ),
    silent("nccl-ib-disabled", setting(T4, NCCL_IB_DISABLE="1")),
    skipped("nccl-ib-disabled", blind(NCCL_IB_DISABLE="1")),
    warning("nccl-net-socket-left", setting(NCCL_NET="socket"), "8 ACTIVE RDMA ports", runs="unset NCCL_NET"),
    silent(
        "nccl-net-socket-left",
        setting(changed_port(with_rdma(H100, rdma_device(0)), "mlx5_0", state="DOWN"), NCCL_NET="Socket"),
    ),
    skipped("nccl-net-socket-left", blind(NCCL_NET="Socket")),
    warning("nccl-p2p-disabled", setting(NCCL_P2P_DISABLE="1"), "8 GPUs on NVLink", runs="unset NCCL_P2P_DISABLE"),
    info("nccl-p2p-disabled", setting(RTX, NCCL_P2P_LEVEL="0"), "through host memory"),
    silent("nccl-p2p-disabled", setting(RTX, NCCL_P2P_LEVEL="PHB", NCCL_P2P_DISABLE="0")),
    skipped("nccl-p2p-disabled", but(setting(NCCL_P2P_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    warning("nccl-shm-disabled", setting(RTX, NCCL_SHM_DISABLE="1"), runs="unset NCCL_SHM_DISABLE"),
    info("nccl-shm-disabled", setting(NCCL_SHM_DISABLE="1")),
    silent("nccl-shm-disabled", setting(h100_node(1), NCCL_SHM_DISABLE="1")),
    skipped("nccl-shm-disabled", but(setting(NCCL_SHM_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    warning("nccl-nvls-disabled", setting(NCCL_NVLS_ENABLE="0"), "NCCL_NVLS_ENABLE=0"),
    silent("nccl-nvls-disabled", setting(RTX, NCCL_NVLS_ENABLE="0")),
    skipped("nccl-nvls-disabled", but(setting(NCCL_NVLS_ENABLE="0"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    info("nccl-gid-index-set", setting(NCCL_IB_GID_INDEX="3"), "InfiniBand, which ignore it"),
    info("nccl-gid-index-set", setting(ROCE, NCCL_IB_GID_INDEX="3"), "2.29.7", "by itself"),
    silent("nccl-gid-index-set", with_nccl(setting(ROCE, NCCL_IB_GID_INDEX="3"), 2, 20, 5)),
    skipped("nccl-gid-index-set", blind(NCCL_IB_GID_INDEX="3")),
    info(
        "nccl-gdr-level-integer", setting(NCCL_NET_GDR_LEVEL="5"), "it means SYS", runs="export NCCL_NET_GDR_LEVEL=SYS"
    ),
    silent("nccl-gdr-level-integer", setting(NCCL_NET_GDR_LEVEL="SYS")),
    skipped("nccl-gdr-level-integer", NO_ENVIRONMENT),
    warning(
        "nccl-gdr-disabled",
        setting(NCCL_NET_GDR_LEVEL="LOC", NCCL_NET_GDR_READ="0"),
        "NCCL_NET_GDR_LEVEL=LOC and NCCL_NET_GDR_READ=0",
        runs="unset NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ",
    ),
    silent("nccl-gdr-disabled", setting(T4, NCCL_NET_GDR_READ="0")),
    skipped("nccl-gdr-disabled", blind(NCCL_NET_GDR_LEVEL="LOC")),
    warning("nccl-ib-retries-few", setting(NCCL_IB_RETRY_CNT="3"), "NCCL_IB_RETRY_CNT=3", "7"),
    silent("nccl-ib-retries-few", setting(T4, NCCL_IB_RETRY_CNT="3")),
    skipped("nccl-ib-retries-few", blind(NCCL_IB_RETRY_CNT="3")),
    info(
        "nccl-sockets-many",
        setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="16"),
        "make 128",
        "64 sockets",
        runs="export NCCL_NSOCKS_PERTHREAD=8",
    ),
    silent("nccl-sockets-many", setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="8")),
    skipped("nccl-sockets-many", NO_ENVIRONMENT),
]
