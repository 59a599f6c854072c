"""MASTER_ADDR leads to IPv6 addresses only, and this machine has no IPv6 address.

Why it matters: the store's address cannot be reached from here at all. The name most often has an AAAA record that
nobody uses, and lacks the A record.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.addresses import parsed
from gpudoctor.knowledge.network.rendezvous_job import rendezvous


@check("master-addr-ipv6-only", title="MASTER_ADDR has an address of a family that this machine has")
def master_addr_ipv6_only(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    addresses = meeting.resolved.value
    if (
        not addresses
        or meeting.is_local.value
        or not all(parsed(address, meeting.resolved).version == 6 for address in addresses)
    ):
        return
    own = [address for interface in machine.network.interfaces.value for address in interface.addresses]
    local = all(address.lower().startswith("fe80:") for address in addresses)
    scopes = ("global", "link") if local else ("global",)
    if any(address.family == "inet6" and address.scope in scopes for address in own):
        return
    yield Problem(
        severity="error",
        summary=f"MASTER_ADDR {meeting.address} has IPv6 addresses only ({addresses[0]}); this machine has none",
        meaning="No rank of this node reaches the store, and the job ends at its time-out.",
        evidence=(meeting.resolved, machine.network.interfaces),
        fix=Fix(
            "Use the head node's IPv4 address as MASTER_ADDR, or give this machine an IPv6 address.",
            commands=(command("getent ahostsv4 {:host}", meeting.address),),
        ),
    )
