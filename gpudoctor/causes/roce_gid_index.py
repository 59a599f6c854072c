"""RoCE uses a GID that the peer cannot answer."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="roce-gid-index",
    title="RoCE uses a GID that the peer cannot answer",
    stages=("first collective",),
    blame="fabric",
    hangs_by="start",
    meaning=(
        "The chosen GID is empty, of RoCE version 1, or of an IPv6 address that is not routed: connections are "
        "refused, or the first data is never acknowledged."
    ),
    fix=Fix(
        "Take NCCL_IB_GID_INDEX out with NCCL 2.21 and later, which find it; with older ones name the index of "
        "RoCE v2 over IPv4.",
        (command("unset NCCL_IB_GID_INDEX"), command("gpudoctor check network")),
    ),
    confirm=(
        "Compare the index of the log with /sys/class/infiniband/*/ports/*/gid_attrs/types: it is RoCE v2, and "
        "its address is the port's IPv4."
    ),
    source=("NCCL documentation of NCCL_IB_GID_INDEX; nccl#426"),
)
