"""Where the ranks that were not seen are: their nodes have connected to ports on which the ranks seen here listen."""

from gpudoctor.hang.job import HangJob

MOST = 64
"""Nodes that a command to paste names."""


def line_for_all_nodes(job: HangJob) -> str:
    """The command, with the address of each node seen and those that its ranks' peers came from; without them where no
    peer did, or there are more than a line holds."""
    own: dict[str, None] = {}
    peers: dict[str, None] = {}
    for rank in job.ranks:
        sockets = rank.evidence.sockets
        listening = {socket.local_port for socket in sockets if socket.state == "LISTEN"}
        for socket in sockets:
            if socket.state == "ESTABLISHED" and socket.local_port in listening:
                own[socket.local] = None
                peers[socket.remote] = None
    others = [address for address in peers if address not in own]
    known = bool(others) and len(own) + len(others) <= MOST
    return "gpudoctor hang --hosts" + (f" {','.join([*own, *others])}" if known else "")
