"""Cases of the check that compares the settings of running ranks."""

from gpudoctor.snapshot import RankSettings, Snapshot
from gpudoctor.testing.cases import error, silent, skipped, warning
from gpudoctor.testing.machines import h100_node, unread
from gpudoctor.testing.networks import with_network

H100 = h100_node()


def rank(
    number: int, /, *, size: int = 8, master: str = "192.0.2.11", space: str = "", **settings: str
) -> RankSettings:
    return RankSettings(1000 + number, number, size, number, master, "29500", "", space, settings)


def running(*ranks: RankSettings) -> Snapshot:
    return with_network(H100, rank_settings=ranks)


RING = [rank(number, NCCL_ALGO="Ring") for number in range(3)]
NO_PROCESSES = with_network(H100, rank_settings=unread("/proc/*/environ"))

CASES = {
    "nccl-settings-differ-between-ranks": [
        error(
            running(*RING, rank(3)),
            "world size 8 at 192.0.2.11 port 29500",
            "NCCL_ALGO is 'Ring' on ranks 0-2 and not set on rank 3",
            runs="export NCCL_ALGO=Ring",
        ),
        # one job each
        error(
            running(
                rank(0, master="a", NCCL_BUFFSIZE="1048576"),
                rank(1, master="a", NCCL_BUFFSIZE="4194304"),
                rank(0, master="b", NCCL_NET="IB"),
                rank(1, master="b", NCCL_NET="IB"),
            ),
            "NCCL_BUFFSIZE is '1048576' on rank 0 and '4194304' on rank 1",
            runs="export NCCL_BUFFSIZE=1048576",
        ),
        warning(
            running(rank(0), rank(1), rank(2, TORCH_NCCL_BLOCKING_WAIT="1")),
            "TORCH_NCCL_BLOCKING_WAIT is not set on ranks 0-1 and '1' on rank 2",
            runs="unset TORCH_NCCL_BLOCKING_WAIT",
        ),
        # an interface of one's own is fine, none beside ranks that have one is not
        warning(
            running(rank(0, GLOO_SOCKET_IFNAME="eth0"), rank(1, GLOO_SOCKET_IFNAME="eth0"), rank(2)),
            "GLOO_SOCKET_IFNAME is 'eth0' on ranks 0-1 and not set on rank 2",
            runs="export GLOO_SOCKET_IFNAME=eth0",
        ),
        # two containers that each call themselves the master
        error(
            running(
                rank(0, master="10.0.0.1", space="net:[1]", NCCL_PROTO="LL"),
                rank(1, master="10.0.0.1", space="net:[2]", NCCL_PROTO="Simple"),
            ),
            "NCCL_PROTO is 'LL' on rank 0 and 'Simple' on rank 1",
        ),
        # what hangs, and what only behaves differently
        error(running(rank(0, NCCL_ALGO="Ring", NCCL_IB_TIMEOUT="22"), rank(1)), times=2),
        silent(running(*RING), running(*RING, rank(3, master="elsewhere"))),
        # What may differ: files, logging, the NIC of each rank, and numbers that mean the same to NCCL.
        silent(
            running(
                rank(0, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/tmp/0", NCCL_IB_HCA="mlx5_0", NCCL_IB_DISABLE="0"),
                rank(1, NCCL_HOSTID="b", NCCL_IB_HCA="mlx5_1", NCCL_NET_GDR_READ="", NCCL_P2P_DISABLE="00"),
            )
        ),
        skipped(NO_PROCESSES),
    ],
}
