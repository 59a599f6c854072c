"""NCCL_IB_DISABLE is set on a machine with working RDMA ports.

Why it matters: all traffic between nodes goes over TCP sockets, several times slower than the fabric that is there. It
is a means to find a fault, and is often left behind.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_in_words, ports_seen, rdma_port_names
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, where


@check("nccl-ib-disabled", title="NCCL may use the RDMA ports of this machine")
def nccl_ib_disabled(machine: Snapshot) -> Problems:
    settings = effective(machine)
    if not set_integer(settings, "NCCL_IB_DISABLE", 0):
        return
    setting = settings["NCCL_IB_DISABLE"]
    ports = rdma_port_names(machine)
    if ports:
        yield Problem(
            severity="warning",
            summary=f"NCCL_IB_DISABLE={setting.value}{where(setting)} with {ports_in_words(ports)}",
            # 5 instead of 25 GB/s: AReaL issue 639
            meaning="NCCL sends over TCP sockets between nodes: about a fifth of the fabric's bandwidth, and more CPU.",
            fix=Fix("Take it out; if the job then fails, the fabric has a fault to repair.", take_out(setting)),
            evidence=evidence(machine, setting, ports_seen(machine)),
        )
