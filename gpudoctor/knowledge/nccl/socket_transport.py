"""Whether NCCL would carry data between nodes over TCP (NET/Socket), as far as this machine tells.

NCCL's IB transport takes every ACTIVE port of InfiniBand or Ethernet when it starts, and looks into the GID table only
when it connects, where entry 0 is its choice if nothing fits. So a RoCE port without a usable GID does not make NCCL
go over TCP: its connections fail. (NCCL src/transport/net_ib/init.cc and connect.cc, read at 2.30.)
"""

from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.presence import if_present
from gpudoctor.snapshot import Snapshot


def data_over_sockets(machine: Snapshot) -> bool:
    """True where NCCL has no RDMA port to use, or is told not to. Raises `NotRead`.

    A net plugin (EFA, gIB) brings its own transport, and comes first.
    """
    settings = effective(machine)
    forced = set_text(settings, "NCCL_NET")
    if forced:
        return forced.lower() == "socket"
    if if_present(machine.network.net_plugins) and set_text(settings, "NCCL_NET_PLUGIN") != "none":
        return False
    return not rdma_choice(machine).taken
