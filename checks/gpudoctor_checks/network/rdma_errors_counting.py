"""Errors of an RDMA port are counting up right now.

Why it matters: symbol errors and corrupt packets mean a bad cable or transceiver, lost or reordered packets a RoCE
network that drops (PFC or ECN not set up). RDMA resends from the lost packet on, so a little loss costs much of the
bandwidth, and more ends the job with "work completion error, status=12". What was counted in the past is not spoken
of: only counters that grow while gpudoctor looks, twice, 50 ms apart.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rdma_ports import places

FLAPS = ("link_downed", "link_error_recovery")  # rdma-link-flapping speaks of them
OF_THE_LINK = ("symbol_error", "local_link_integrity_errors", "port_rcv_errors", "rx_icrc_encapsulated")


@check("rdma-errors-counting", title="RDMA ports count no errors")
def rdma_errors_counting(machine: Snapshot) -> Problems:
    for place in places(machine, lambda port: port.counting):
        counting = place.port.counting
        if counting.missing_kind == "absent":
            continue
        grown = {name: by for name, by in counting.value.items() if name not in FLAPS}
        if grown:
            damaged = any(counter in OF_THE_LINK for counter in grown)
            yield Problem(
                severity="warning",
                summary=f"{place.name} counts errors right now: within 50 ms "
                + ", ".join(f"{counter} by {by}" for counter, by in grown.items()),
                meaning="Packets are damaged on this link; RDMA sends them again, slower, until it gives up."
                if damaged
                else "Packets are lost in the network; RDMA sends them again, slower, until it gives up.",
                evidence=(counting,),
                fix=Fix.of(
                    "Clean or replace cable and transceiver."
                    if damaged
                    else "Look at flow control (PFC) and ECN of switches and NIC, and at a receiver that is too slow.",
                    command(
                        "grep -s . /sys/class/infiniband/{:interface}/ports/{:number}/*counters/* | tail -n 80",
                        place.device.name,
                        place.port.number,
                    ),
                ),
            )
