"""NCCL_NET=IB on a node without a port that NCCL can use: the port is named, where the log tells that it was asked for.

The lines are those of NCCL 2.21.5, 2.27.5 and 2.32.3 on the machines of tests/lab/nccl.
"""

import io

import pytest

from gpudoctor.explain.explain import explain

NODE = "n1:9:8 [0] "
NO_DEVICE = NODE + "NCCL INFO NET/IB : No device found."
NOTHING = NODE + "plugin/net.cc:388 NCCL WARN Failed to initialize any NET plugin"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ((NO_DEVICE, NOTHING), "rdma-unused"),
        ((NO_DEVICE, NODE + "NCCL INFO Initialized NET plugin Socket", NOTHING), "nccl-settings"),
        ((NOTHING,), "nccl-settings"),
        ((NODE + "net.cc:579 NCCL WARN Error: network IB not found.",), "rdma-unused"),
        ((NO_DEVICE, NODE + "net.cc:579 NCCL WARN Error: network nosuch not found."), "nccl-settings"),
    ],
)
def test_the_network_that_is_not_there(lines: tuple[str, ...], cause: str) -> None:
    log = "\n".join((*lines, NODE + "NCCL INFO init.cc:1533 -> 5", ""))
    assert explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].cause == cause


START = "NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId 1b000 commId 0x2 - Init START"


@pytest.mark.parametrize(("hosts", "blamed"), [(("n1", "n1"), False), (("n1", "n2"), True), (("n1",), True)])
def test_which_interface_ranks_of_one_host_take_is_no_cause(hosts: tuple[str, ...], blamed: bool) -> None:
    """Two releases of NCCL on one host, over lo (tests/lab/nccl/failures.py): lo was named first, at 0.76."""
    lines = [f"{host}:9:8 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>" for host in hosts]
    lines += [f"{host}:9:8 [0] {START.format(rank=rank)}" for rank, host in enumerate(hosts)]
    closed = "misc/socket.cc:68 NCCL WARN socketProgress: Connection closed by remote peer n1<51526>"
    log = "\n".join((*lines, f"n1:9:8 [0] {closed}", "n1:9:8 [0] NCCL INFO init.cc:1533 -> 6", ""))
    causes = [cause.cause for cause in explain(["-"], stdin=io.BytesIO(log.encode())).causes]
    assert ("wrong-nic" in causes) is blamed
