"""An RDMA link goes down, or recovers from errors, right now.

Why it matters: every time a link drops, packets of running collectives are lost; after some retries (NCCL_IB_TIMEOUT,
NCCL_IB_RETRY_CNT) the job ends with "work completion error, status=12" or hangs. Counters keep what was, also from
the last reboot of a switch, so only those that grow while gpudoctor looks are spoken of: two looks, 50 ms apart.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rdma_ports import places

FLAPS = ("link_downed", "link_error_recovery")  # InfiniBand PortCounters: LinkDowned, LinkErrorRecovery


@check("rdma-link-flapping", title="RDMA links stay up")
def rdma_link_flapping(machine: Snapshot) -> Problems:
    for place in places(machine, lambda port: port.counting):
        counting = place.port.counting
        if counting.missing_kind == "absent":
            continue
        grown = {name: by for name, by in counting.value.items() if name in FLAPS}
        if grown:
            total = place.port.counters.value_or({})
            words = ", ".join(f"{name} by {by} to {total.get(name, 0) + by}" for name, by in grown.items())
            yield Problem(
                severity="error",
                summary=f"{place.name} drops its link right now: within 50 ms {words}",
                meaning="Jobs over this port end with retries exceeded (status=12), or hang.",
                evidence=(counting,),
                fix=Fix.of(
                    "Take the port out of use, and replace cable or transceiver.",
                    command("export NCCL_IB_HCA={:value}", f"^={place.device.name}"),
                    command("sudo mlxlink -d {:name} -m -e", place.device.pci_bus_id.value_or(place.device.name)),
                ),
            )
