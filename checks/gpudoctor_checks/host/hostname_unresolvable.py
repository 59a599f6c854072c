"""This machine's own name does not resolve.

Why it matters: gloo looks up its own hostname to find the address it listens on, and fails without one. NCCL does
not ask for it, so jobs that use both fail in the part that uses gloo (CPU collectives, some checkpoints, barriers).
"""

import re

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node


@check("hostname-unresolvable", title="Its own hostname resolves")
def hostname_unresolvable(machine: Snapshot) -> Problems:
    name, addresses = machine.host.hostname, machine.host.hostname_addresses
    if addresses.value:
        return
    safe = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name.value) is not None
    yield Problem(
        severity="warning" if is_multi_node(machine.environment.value) else "info",
        summary=f"Its own hostname {name.value} does not resolve to any address",
        meaning="gloo fails or falls back to the loopback address, so several nodes cannot find each other.",
        evidence=(addresses, name),
        fix=Fix(
            "Give the name this machine's address in DNS or /etc/hosts: the first of `hostname -I`, "
            "which should be the one that other nodes reach.",
            commands=(command('echo "$(hostname -I | cut -d" " -f1)" {:host} | sudo tee -a /etc/hosts', name.value),)
            if safe
            else (),
        ),
    )
