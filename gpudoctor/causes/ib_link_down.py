"""An RDMA port is down or loses its link."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="ib-link-down",
    title="an RDMA port is down or loses its link",
    stages=("first collective", "training"),
    blame="fabric",
    hangs_by="start",
    meaning=(
        "Packets over this port are not acknowledged. Retries run out, or the job stands until they do. A port "
        "that stays in INIT has no subnet manager."
    ),
    fix=Fix(
        "Exchange cable or optics, or leave the port out of NCCL_IB_HCA; start the subnet manager where the state "
        "is INIT.",
        (command("rdma link show"), command("gpudoctor check network")),
    ),
    confirm=("Look at state and counters of the port twice: it is not ACTIVE, or link_downed grows."),
    source=("InfiniBand port states; NCCL net_ib (async events); nccl#905"),
)
