"""A packet filter of this machine drops what comes in, and the job has several nodes.

Why it matters: NCCL, gloo and the store listen on ports that the kernel picks. A filter that lets in ssh and a few
known ports drops the rest without a word, and the other nodes wait until their time-out.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import Firewall

LISTING = {
    "nft": command("sudo nft list ruleset"),
    "iptables": command("sudo iptables -S"),
    "firewalld": command("sudo firewall-cmd --list-all"),
}


@check("firewall-drops-nodes", title="No packet filter drops what other nodes send")
def firewall_drops_nodes(machine: Snapshot) -> Problems:
    if not is_multi_node(machine.environment.value):
        return
    for firewall in machine.network.firewalls.value:
        if firewall.drops_input:
            yield Problem(
                severity="warning",
                summary=f"{firewall.tool} drops or rejects incoming packets by {counted(len(firewall.rules), 'rule')}"
                f"{_first(firewall)}",
                meaning="Unless other rules let the nodes of the job in, on all ports, their connections to this one "
                "are dropped and they wait until their time-out.",
                evidence=(machine.network.firewalls, machine.environment),
                fix=Fix(
                    "Look whether the network of the other nodes is accepted on every port, and accept it where not.",
                    commands=(LISTING[firewall.tool],) if firewall.tool in LISTING else (),
                ),
            )


def _first(firewall: Firewall) -> str:
    return f", the first: {firewall.rules[0].rstrip('.; ')}" if firewall.rules else ""
