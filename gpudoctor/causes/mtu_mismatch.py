"""The ports of the path have different MTUs."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="mtu-mismatch",
    title="the ports of the path have different MTUs",
    stages=("first collective",),
    blame="fabric",
    hangs_by="start",
    meaning=(
        "Small messages pass, and large ones vanish or are refused, since one port sends packets that another "
        "does not take."
    ),
    fix=Fix(
        "Set the same MTU on all hosts and on the switches between.",
        (command("ip -details link show"), command("ibv_devinfo -v")),
    ),
    confirm=("Send a packet of the full size that may not be divided: ping -M do -s 8972 to a peer for MTU 9000."),
    source=("NCCL troubleshooting; enum ibv_wc_status"),
)
