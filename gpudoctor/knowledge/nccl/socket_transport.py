"""Whether NCCL would carry data between nodes over TCP (NET/Socket), as far as this machine tells."""

from gpudoctor.knowledge.nccl.settings import effective, set_text
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import Snapshot


def data_over_sockets(machine: Snapshot) -> bool:
    """True where NCCL has no RDMA port to use, or is told not to. Raises `NotRead`.

    A net plugin (EFA, gIB) brings its own transport, and comes first.
    """
    settings = effective(machine)
    forced = set_text(settings, "NCCL_NET")
    if forced:
        return forced.lower() == "socket"
    if machine.network.net_plugins.value and set_text(settings, "NCCL_NET_PLUGIN") != "none":
        return False
    if not machine.network.verbs_library.value:
        return True
    return not rdma_choice(machine).taken
