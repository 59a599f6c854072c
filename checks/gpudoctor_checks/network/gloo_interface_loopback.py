"""gloo would listen on the loopback address, for a reason other than its own name's entry in /etc/hosts.

Why it matters: gloo listens on what GLOO_SOCKET_IFNAME names, else on the first address of its own hostname that is
this machine's. A name that leads to an address which the machine does not have (a copied /etc/hosts, a stale DNS
entry) makes it fall back to 127.0.0.1, with a warning that drowns in the log, and several nodes wait for each other.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_loopback, is_multi_node
from gpudoctor.knowledge.network.gloo_interface import IFNAME, gloo_choice, listed
from gpudoctor.knowledge.network.interface_roles import recommended, seen


@check("gloo-interface-loopback", title="gloo listens on an address that other nodes reach")
def gloo_interface_loopback(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    choice = gloo_choice(machine)
    several = is_multi_node(environment)
    if not choice.address or not is_loopback(choice.address):
        return
    named = listed(environment.get(IFNAME, ""))
    if not named:
        addresses = machine.host.hostname_addresses.value
        # A name that leads to 127.x is hostname-loopback's, one that leads nowhere hostname-unresolvable's.
        if not addresses or any(map(is_loopback, addresses)):
            return
    elif not several:
        return
    best = recommended(machine)
    line = (
        command("export {:variable}={:interface}", IFNAME, best.name) if best is not None else command("ip -br address")
    )
    yield Problem(
        severity="error" if several else "info",
        summary=f"gloo listens on {choice.address}: {choice.rule}",
        meaning="Harmless on one node. Over several, the others connect to themselves and wait until the time-out.",
        evidence=(
            machine.environment if named else machine.host.hostname_addresses,
            seen(machine, choice.interface, best.name if best is not None else ""),
        ),
        fix=Fix(
            "Name the interface that leads to the other nodes"
            + ("." if named else ", and correct its own name's address in /etc/hosts or DNS."),
            commands=(line,),
        ),
    )
