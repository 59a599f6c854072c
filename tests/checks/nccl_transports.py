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


CASES = {
    "nccl-hca-prefix-wide": [
        warning(
            setting(TWELVE, NCCL_IB_HCA="^mlx5_1"),
            "leaves out mlx5_10 and mlx5_11",
            runs="export NCCL_IB_HCA='^=mlx5_1'",
        ),
        silent(setting(TWELVE, NCCL_IB_HCA="=mlx5_0,mlx5_1")),
        silent(setting(TWELVE, NCCL_IB_HCA="mlx5")),
        skipped(blind(NCCL_IB_HCA="mlx5_1")),
    ],
    "nccl-hca-matches-nothing": [
        warning(
            setting(NCCL_IB_HCA="mlx5_bond_0"),
            "mlx5_bond_0",
            "8 ACTIVE RDMA ports",
            runs="export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7'",
        ),
        silent(setting(NCCL_IB_HCA="mlx5_3:1")),
        skipped(blind(NCCL_IB_HCA="mlx5_bond_0")),
    ],
    "nccl-ib-disabled": [
        warning(
            in_file(NCCL_IB_DISABLE="1"),
            "/etc/nccl.conf",
            "8 ACTIVE RDMA ports",
            "400 Gb/s",
            runs="sed -i '/^NCCL_IB_DISABLE=/d' /etc/nccl.conf",
        ),
        silent(setting(T4, NCCL_IB_DISABLE="1")),
        skipped(blind(NCCL_IB_DISABLE="1")),
    ],
    "nccl-net-socket-left": [
        warning(setting(NCCL_NET="socket"), "8 ACTIVE RDMA ports", runs="unset NCCL_NET"),
        silent(setting(changed_port(with_rdma(H100, rdma_device(0)), "mlx5_0", state="DOWN"), NCCL_NET="Socket")),
        skipped(blind(NCCL_NET="Socket")),
    ],
    "nccl-p2p-disabled": [
        warning(setting(NCCL_P2P_DISABLE="1"), "8 GPUs on NVLink", runs="unset NCCL_P2P_DISABLE"),
        info(setting(RTX, NCCL_P2P_LEVEL="0"), "through host memory"),
        silent(setting(RTX, NCCL_P2P_LEVEL="PHB", NCCL_P2P_DISABLE="0")),
        skipped(but(setting(NCCL_P2P_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    ],
    "nccl-shm-disabled": [
        warning(setting(RTX, NCCL_SHM_DISABLE="1"), runs="unset NCCL_SHM_DISABLE"),
        info(setting(NCCL_SHM_DISABLE="1")),
        silent(setting(h100_node(1), NCCL_SHM_DISABLE="1")),
        skipped(but(setting(NCCL_SHM_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    ],
    "nccl-nvls-disabled": [
        warning(setting(NCCL_NVLS_ENABLE="0"), "NCCL_NVLS_ENABLE=0"),
        silent(setting(RTX, NCCL_NVLS_ENABLE="0")),
        skipped(but(setting(NCCL_NVLS_ENABLE="0"), "nvidia.gpus", unread("nvmlDeviceGetCount"))),
    ],
    "nccl-gid-index-set": [
        info(setting(NCCL_IB_GID_INDEX="3"), "InfiniBand, which ignore it"),
        info(setting(ROCE, NCCL_IB_GID_INDEX="3"), "2.29.7", "by itself"),
        silent(with_nccl(setting(ROCE, NCCL_IB_GID_INDEX="3"), 2, 20, 5)),
        skipped(blind(NCCL_IB_GID_INDEX="3")),
    ],
    "nccl-gdr-level-integer": [
        info(setting(NCCL_NET_GDR_LEVEL="5"), "it means SYS", runs="export NCCL_NET_GDR_LEVEL=SYS"),
        silent(setting(NCCL_NET_GDR_LEVEL="SYS")),
        skipped(NO_ENVIRONMENT),
    ],
    "nccl-gdr-disabled": [
        warning(
            setting(NCCL_NET_GDR_LEVEL="LOC", NCCL_NET_GDR_READ="0"),
            "NCCL_NET_GDR_LEVEL=LOC and NCCL_NET_GDR_READ=0",
            runs="unset NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ",
        ),
        silent(setting(T4, NCCL_NET_GDR_READ="0")),
        skipped(blind(NCCL_NET_GDR_LEVEL="LOC")),
    ],
    "nccl-ib-retries-few": [
        warning(setting(NCCL_IB_RETRY_CNT="3"), "NCCL_IB_RETRY_CNT=3", "7"),
        silent(setting(T4, NCCL_IB_RETRY_CNT="3")),
        skipped(blind(NCCL_IB_RETRY_CNT="3")),
    ],
    "nccl-sockets-many": [
        info(
            setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="16"),
            "make 128",
            "64 sockets",
            runs="export NCCL_NSOCKS_PERTHREAD=8",
        ),
        silent(setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="8")),
        skipped(NO_ENVIRONMENT),
    ],
}
