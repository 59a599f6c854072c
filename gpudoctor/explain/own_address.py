"""A connection that failed to an address which this very node has on a bridge: the other node announced the same one.

libvirt, docker and LXC give their bridge the same address on every host (192.168.122.1, 172.17.0.1, 10.0.3.1): a rank
that announces it sends all others to themselves. NCCL lists what it takes ("NET/Socket : Using [0]eno1:... [1]virbr0:
..."), and names the address of a connection that failed.
"""

from collections.abc import Iterator

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts
from gpudoctor.sure import SEEN

VIRTUAL = "nccl-interface-virtual"
"""The symptom that tells a bridge and its address: symptoms/nccl_more.py."""


def own_addresses(facts: Facts) -> Iterator[Candidate]:
    """One for the first such connection."""
    bridges = {
        event.values["address"]: event
        for event in reversed(facts.events)
        if event.symptom.id == VIRTUAL and event.values.get("address") and event.values.get("interface") != "lo"
    }
    for event in facts.events:
        if event.symptom.role != "connection" and event.symptom.cause != "wrong-nic":
            continue
        bridge = bridges.get(event.values.get("address", "").partition("<")[0])
        if bridge is None or bridge is event:
            continue
        interface, address = bridge.values["interface"], bridge.values["address"]
        yield Candidate(
            cause="wrong-nic",
            variant="bridge",
            values={"interface": interface, "address": address},
            confidence=SEEN,
            standing="cause",
            moment=event.moment,
            summary=f"a rank was sent to {address}, which is {interface} here: that bridge has the same address on all",
            ranks=() if event.rank is None else (event.rank,),
            evidence=(event.at, bridge.at),
        )
        return
