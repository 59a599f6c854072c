"""The head node, or MASTER_PORT on it, cannot be reached from this machine.

Why it matters: an address without a route, a host that is off, or a firewall that drops the packets: the ranks of this
node try again and again until "the client socket has timed out", ten minutes or more later.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import rendezvous


@check("master-unreachable", title="The head node answers on MASTER_PORT")
def master_unreachable(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    if not meeting.resolved.value or meeting.is_local.value or meeting.port is None:
        return
    answer = meeting.connection.value
    if answer not in ("no answer", "unreachable"):
        return
    address = meeting.resolved.value[0]
    silent = answer == "no answer"
    what = "gives no answer" if silent else "cannot be reached: no route leads there, or no machine is there"
    yield Problem(
        severity="error",
        summary=f"MASTER_ADDR {meeting.address} ({meeting.resolved.value[0]}) port {meeting.port} {what}",
        meaning="The ranks of this node never find the store, and the job ends at its time-out.",
        evidence=(meeting.connection, machine.network.routes, machine.environment),
        fix=Fix(
            "A port that drops is a firewall's on the head node or between (an open machine without a listener refuses "
            "at once); or the head node is off, or MASTER_ADDR is on a network that this machine does not share."
            if silent
            else "Use an address of the head node on a network that this machine shares, or repair the route.",
            commands=(command("ip route get {:address}", address), command("ping -c 2 -W 1 {:host}", address)),
        ),
    )
