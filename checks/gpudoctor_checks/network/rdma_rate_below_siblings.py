"""An RDMA port runs at a lower rate than its siblings of the same model.

Why it matters: a ring of collectives is as fast as its slowest link. A port that negotiated half its lanes or an
older speed (a bad cable, a wrong transceiver, a switch port set to another speed) slows down every rank.
The siblings of the same board are the measure, so no table of products is needed.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.like_gpus import majority
from gpudoctor.knowledge.network.rdma_ports import DevicePort, alike, rate
from gpudoctor.knowledge.wording import listed


@check("rdma-rate-below-siblings", title="RDMA ports of a model run at the same rate")
def rdma_rate_below_siblings(machine: Snapshot) -> Problems:
    for group in alike(machine):
        every = [DevicePort(device, port) for device in group for port in device.ports]
        active = [place for place in every if place.port.state.value == "ACTIVE"]
        usual = majority(place.port.rate_gbps.value for place in active)
        slow = [place for place in active if usual is not None and place.port.rate_gbps.value < usual]
        if slow and usual is not None:
            rates = sorted({place.port.rate_gbps.value for place in slow})
            address = slow[0].device.pci_bus_id.value_or(slow[0].device.name)
            yield Problem(
                severity="warning",
                summary=f"{listed(place.name for place in slow)} {'runs' if len(slow) == 1 else 'run'} at "
                f"{listed(rate(rate_here) for rate_here in rates)}; siblings of the same model run at {rate(usual)}",
                meaning="Collectives over all ports are slowed down to the slowest of them.",
                evidence=tuple(place.port.rate_gbps for place in slow[:8]),
                fix=Fix(
                    "Look at cable, transceiver and the speed of the switch's port; then bring the link up anew.",
                    commands=(command("sudo mlxlink -d {:name} -m -e", address),),
                ),
            )
