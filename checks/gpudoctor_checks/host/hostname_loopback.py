"""This machine's own name resolves to a loopback address.

Why it matters: gloo binds to whatever its own hostname resolves to, and torchrun's c10d rendezvous decides by it who
hosts the store. With 127.0.1.1, as Debian and Ubuntu install it, one node alone works and several nodes wait for each
other until their time-out.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_loopback, is_multi_node
from gpudoctor.knowledge.wording import listed

DEBIAN_LINE = "127.0.1.1"  # Debian's installer gives the own name a line of its own under this address
# The interface that leads out, for gloo to use whatever the name says.
OWN_INTERFACE = command(
    "export GLOO_SOCKET_IFNAME=$(ip -o route show default | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p' | head -n 1)"
)

# The shell asks for the name itself: it stands within a program of sed.
REAL_ADDRESS = command(
    r'sudo sed -i.bak "s/^127\.0\.1\.1\([[:space:]].*\b$(hostname)\b\)/'
    r"""$(hostname -I | cut -d' ' -f1)\1/" /etc/hosts"""
)


@check("hostname-loopback", title="Its own hostname leads to an address that other nodes reach")
def hostname_loopback(machine: Snapshot) -> Problems:
    name, addresses = machine.host.hostname, machine.host.hostname_addresses
    # The first one is the one that gloo takes.
    if not addresses.value or not is_loopback(addresses.value[0]):
        return
    several = is_multi_node(machine.environment.value)
    commands = [OWN_INTERFACE, command("getent ahosts {:host}", name.value)]
    if addresses.value[0] == DEBIAN_LINE:
        commands.append(REAL_ADDRESS)
    yield Problem(
        severity="warning" if several else "info",
        summary=f"Its own hostname {name.value} resolves to {listed(addresses.value, 3)}; several nodes need "
        f"an address that the others reach",
        meaning="Harmless on one node. Over several, gloo and torchrun's rendezvous wait until their time-out.",
        evidence=(addresses, name),
        fix=Fix(
            "For one run, tell gloo its interface. For good, give the name this machine's real address in /etc/hosts "
            "or DNS" + (": the first of `hostname -I`." if len(commands) > 2 else "."),
            commands=tuple(commands),
        ),
    )
