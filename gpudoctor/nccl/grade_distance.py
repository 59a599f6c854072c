"""What NCCL decides by distance alone: no fault, but some machines are faster the other way, so measure both."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.grade_paths import could_talk, is_wiring, lacking_gpu_direct
from gpudoctor.nccl.grade_places import GradedPlace
from gpudoctor.snapshot import read


def worth_comparing(places: Sequence[GradedPlace]) -> tuple[Finding, ...]:
    """One note of each kind at most, for the first node that it is true of. Never raises."""
    return (*list(_adapters(places))[:1], *list(_peers(places))[:1])


def _adapters(places: Sequence[GradedPlace]) -> Iterator[Finding]:
    for place, failing in lacking_gpu_direct(places):
        if failing is not None and failing.condition == "distance" and is_wiring(failing):
            yield finding(
                "gpu-direct-too-far",
                "info",
                f"NCCL does not use GPUDirect RDMA on {place.node}: {failing.reason}",
                meaning="Data to other nodes is copied through host memory. Whether the direct way through the CPU is "
                "faster depends on the machine.",
                fix=Fix(
                    "Measure both.", commands=(command("gpudoctor nccl-test --compare NCCL_NET_GDR_LEVEL=PXB,PHB,SYS"),)
                ),
                evidence=(read(f"NCCL's log of {place.node}", "via NET/IB without /GDRDMA"),),
                nodes=(place.node,),
            )


def _peers(places: Sequence[GradedPlace]) -> Iterator[Finding]:
    if len(places) > 1:  # the network is slower than host memory, or nearly
        return
    for place in places:
        if place.machine is None or "SHM" not in place.log.transports() or could_talk(place.machine, place):
            continue
        pair = could_talk(place.machine, place, across=True)
        if pair is not None:
            one, other, how = pair
            yield finding(
                "peers-too-far",
                "info",
                f"GPU {one.index} and GPU {other.index} of {place.node} talk through host memory (SHM): NCCL "
                f"holds them for too far apart, and {how}",
                meaning="Whether the direct way through the CPU is faster depends on the machine.",
                fix=Fix("Measure both.", commands=(command("gpudoctor nccl-test --compare NCCL_P2P_LEVEL=PXB,SYS"),)),
                evidence=(read(f"NCCL's log of {place.node}", "via SHM"),),
                nodes=(place.node,),
            )
