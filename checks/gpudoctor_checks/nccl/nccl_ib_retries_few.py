"""NCCL_IB_RETRY_CNT is below 7.

Why it matters: 7 is the default and the most that hardware takes. With fewer tries a packet that is lost a few times,
which happens on a large or congested fabric, ends the job with "transport retry counter exceeded".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_seen, rdma_port_names
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, where

DEFAULT = 7  # three bits of the queue pair (InfiniBand specification); NCCL's default in every release


@check("nccl-ib-retries-few", title="NCCL tries lost packets as often as it can")
def nccl_ib_retries_few(machine: Snapshot) -> Problems:
    settings = effective(machine)
    if set_integer(settings, "NCCL_IB_RETRY_CNT", DEFAULT) >= DEFAULT or not rdma_port_names(machine):
        return
    setting = settings["NCCL_IB_RETRY_CNT"]
    yield Problem(
        severity="warning",
        summary=f"NCCL_IB_RETRY_CNT={setting.value}{where(setting)}; the default is {DEFAULT}",
        meaning="A few lost packets end the job where the default would send them again.",
        fix=Fix("Take it out.", commands=take_out(setting)),
        evidence=evidence(machine, setting, ports_seen(machine)),
    )
