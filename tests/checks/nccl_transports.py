"""Cases of the checks in checks/gpudoctor_checks/nccl/ about transports that settings switch off or narrow."""

from gpudoctor.snapshot import Snapshot
from tests.build_network import RDMA, changed_port, rdma_device, with_rdma
from tests.cases import Case
from tests.checks.nccl import H100, T4, in_file, setting, without

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
        commands=("export NCCL_IB_HCA==mlx5_0,mlx5_1",),
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
        commands=("export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7",),
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
]
