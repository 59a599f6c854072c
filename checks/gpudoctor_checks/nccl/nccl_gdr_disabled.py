"""GPUDirect RDMA is switched off by a setting, on a machine with working RDMA ports.

Why it matters: every message between nodes takes a detour through host memory. With several NICs the bandwidth falls to
about a third. It is a means to find faults of ACS, IOMMU or peer memory, and should not outlive the cure.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_in_words, ports_seen, rdma_port_names
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, integer, set_text, where


@check("nccl-gdr-disabled", title="No setting keeps NCCL from GPUDirect RDMA")
def nccl_gdr_disabled(machine: Snapshot) -> Problems:
    settings = effective(machine)
    level, reads = set_text(settings, "NCCL_NET_GDR_LEVEL"), settings.get("NCCL_NET_GDR_READ")
    causes = []
    if level == "LOC" or (level[:1].isdigit() and integer(level) == 0):
        causes.append(settings["NCCL_NET_GDR_LEVEL"])
    if reads is not None and reads.value and integer(reads.value) == 0:
        causes.append(reads)
    if not causes:
        return
    ports = rdma_port_names(machine)
    if not ports or not machine.nvidia.gpus.value:
        return
    named = " and ".join(f"{cause.name}={cause.value}{where(cause)}" for cause in causes)
    yield Problem(
        severity="warning",
        summary=f"{named} with {ports_in_words(ports)}",
        # nccl issue 1412: 33 against 93 GB/s with several NICs
        meaning="Messages between nodes pass through host memory; with several NICs that costs up to two thirds.",
        fix=Fix("Take it out; if transfers then fail, look at ACS, IOMMU and peer memory.", take_out(*causes)),
        evidence=evidence(machine, *causes, ports_seen(machine)),
    )
