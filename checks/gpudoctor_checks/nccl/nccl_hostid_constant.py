"""NCCL_HOSTID is set, and does not hold this machine's name.

Why it matters: it replaces the host's identity. Ranks on two machines with the same value take each other for
neighbours on one: they try shared memory and NVLink, and hang or report duplicate GPUs.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where


@check("nccl-hostid-constant", title="NCCL_HOSTID tells machines apart")
def nccl_hostid_constant(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_HOSTID")
    if setting is None or not setting.value:
        return
    hostname = machine.host.hostname
    if hostname.value.partition(".")[0].lower() in setting.value.lower():
        return
    yield Problem(
        severity="warning",
        summary=f"NCCL_HOSTID is {setting.value[:60]!r}{where(setting)}, which does not hold the name "
        f"{hostname.value} of this machine",
        meaning="If another machine of the job has this value, their ranks believe they share one machine and hang.",
        fix=Fix("Take it out, or let it hold the machine's name.", commands=take_out(setting)),
        evidence=evidence(machine, setting, hostname),
    )
