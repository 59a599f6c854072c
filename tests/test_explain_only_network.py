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
