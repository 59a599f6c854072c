"""Cases of the checks in checks/gpudoctor_checks/nccl/ about transports that settings switch off or narrow."""

from gpudoctor.snapshot import Snapshot
from tests.build import but, h100_node, unread
from tests.build_network import RDMA, changed_port, rdma_device, roce_port, with_rdma
from tests.cases import Case
from tests.checks.nccl import H100, NO_ENVIRONMENT, RTX, T4, in_file, setting, with_nccl, without

ROCE = with_rdma(H100, rdma_device(0, roce_port(interface="eth0", address="192.0.2.11")))
TWELVE = with_rdma(H100, *(rdma_device(index) for index in range(12)))


def blind(**variables: str) -> Snapshot:
    """RDMA devices that could not be read."""
    return without(setting(**variables), rdma_devices=RDMA)


CASES = [
    Case(
        "nccl-hca-prefix-wide",
        fires=setting(TWELVE, NCCL_IB_HCA="mlx5_0,mlx5_1"),
        silent=setting(TWELVE, NCCL_IB_HCA="=mlx5_0,mlx5_1"),
        unread=blind(NCCL_IB_HCA="mlx5_1"),
        severity="warning",
        says=("mlx5_10", "mlx5_11"),
        commands=("export NCCL_IB_HCA='=mlx5_0,mlx5_1'",),
    ),
    Case(
        "nccl-hca-prefix-wide",
        fires=setting(TWELVE, NCCL_IB_HCA="^mlx5_1"),
        silent=setting(TWELVE, NCCL_IB_HCA="mlx5"),
        severity="warning",
        says=("leaves out mlx5_10 and mlx5_11",),
        commands=("export NCCL_IB_HCA='^=mlx5_1'",),
    ),
    Case(
        "nccl-hca-matches-nothing",
        fires=setting(NCCL_IB_HCA="mlx5_bond_0"),
        silent=setting(NCCL_IB_HCA="mlx5_3:1"),
        unread=blind(NCCL_IB_HCA="mlx5_bond_0"),
        severity="warning",
        says=("mlx5_bond_0", "8 ACTIVE RDMA ports"),
        commands=("export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7'",),
    ),
    Case(
        "nccl-ib-disabled",
        fires=in_file(NCCL_IB_DISABLE="1"),
        silent=setting(T4, NCCL_IB_DISABLE="1"),
        unread=blind(NCCL_IB_DISABLE="1"),
        severity="warning",
        says=("/etc/nccl.conf", "8 ACTIVE RDMA ports", "400 Gb/s"),
        commands=("sed -i '/^NCCL_IB_DISABLE=/d' /etc/nccl.conf",),
    ),
    Case(
        "nccl-net-socket-left",
        fires=setting(NCCL_NET="socket"),
        silent=setting(changed_port(with_rdma(H100, rdma_device(0)), "mlx5_0", state="DOWN"), NCCL_NET="Socket"),
        unread=blind(NCCL_NET="Socket"),
        severity="warning",
        says=("8 ACTIVE RDMA ports",),
        commands=("unset NCCL_NET",),
    ),
    Case(
        "nccl-p2p-disabled",
        fires=setting(NCCL_P2P_DISABLE="1"),
        silent=setting(h100_node(1), NCCL_P2P_DISABLE="1"),
        unread=but(setting(NCCL_P2P_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount")),
        severity="warning",
        says=("8 GPUs on NVLink",),
        commands=("unset NCCL_P2P_DISABLE",),
    ),
    Case(
        "nccl-p2p-disabled",
        fires=setting(RTX, NCCL_P2P_LEVEL="0"),
        silent=setting(RTX, NCCL_P2P_LEVEL="PHB", NCCL_P2P_DISABLE="0"),
        severity="info",
        says=("through host memory",),
    ),
    Case(
        "nccl-shm-disabled",
        fires=setting(RTX, NCCL_SHM_DISABLE="1"),
        silent=setting(h100_node(1), NCCL_SHM_DISABLE="1"),
        unread=but(setting(NCCL_SHM_DISABLE="1"), "nvidia.gpus", unread("nvmlDeviceGetCount")),
        severity="warning",
        commands=("unset NCCL_SHM_DISABLE",),
    ),
    Case("nccl-shm-disabled", fires=setting(NCCL_SHM_DISABLE="1"), severity="info"),
    Case(
        "nccl-nvls-disabled",
        fires=setting(NCCL_NVLS_ENABLE="0"),
        silent=setting(RTX, NCCL_NVLS_ENABLE="0"),
        unread=but(setting(NCCL_NVLS_ENABLE="0"), "nvidia.gpus", unread("nvmlDeviceGetCount")),
        severity="warning",
        says=("NCCL_NVLS_ENABLE=0",),
    ),
    Case(
        "nccl-gid-index-set",
        fires=setting(NCCL_IB_GID_INDEX="3"),
        silent=setting(NCCL_IB_GID_INDEX="-1"),
        unread=blind(NCCL_IB_GID_INDEX="3"),
        severity="info",
        says=("InfiniBand, which ignore it",),
    ),
    Case(
        "nccl-gid-index-set",
        fires=setting(ROCE, NCCL_IB_GID_INDEX="3"),
        silent=with_nccl(setting(ROCE, NCCL_IB_GID_INDEX="3"), 2, 20, 5),
        severity="info",
        says=("2.29.7", "by itself"),
    ),
    Case(
        "nccl-gdr-level-integer",
        fires=setting(NCCL_NET_GDR_LEVEL="5"),
        silent=setting(NCCL_NET_GDR_LEVEL="SYS"),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("it means SYS",),
        commands=("export NCCL_NET_GDR_LEVEL=SYS",),
    ),
    Case(
        "nccl-gdr-disabled",
        fires=setting(NCCL_NET_GDR_LEVEL="LOC", NCCL_NET_GDR_READ="0"),
        silent=setting(T4, NCCL_NET_GDR_READ="0"),
        unread=blind(NCCL_NET_GDR_LEVEL="LOC"),
        severity="warning",
        says=("NCCL_NET_GDR_LEVEL=LOC and NCCL_NET_GDR_READ=0",),
        commands=("unset NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ",),
    ),
    Case(
        "nccl-ib-retries-few",
        fires=setting(NCCL_IB_RETRY_CNT="3"),
        silent=setting(T4, NCCL_IB_RETRY_CNT="3"),
        unread=blind(NCCL_IB_RETRY_CNT="3"),
        severity="warning",
        says=("NCCL_IB_RETRY_CNT=3", "7"),
    ),
    Case(
        "nccl-sockets-many",
        fires=setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="16"),
        silent=setting(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="8"),
        unread=NO_ENVIRONMENT,
        severity="info",
        says=("make 128", "64 sockets"),
        commands=("export NCCL_NSOCKS_PERTHREAD=8",),
    ),
]
