"""NCCL_RAS_ENABLE=0: nobody can ask a hanging job where it stands.

Why it matters: from 2.24.3 on NCCL answers on a local port which ranks have not started which collective. It costs
nothing while nobody asks, and is the quickest way to the rank that hangs.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, nccl_version, set_integer, version_seen, where

SINCE = (2, 24, 3)


@check("nccl-ras-off", title="NCCL's RAS service can be asked about a hang")
def nccl_ras_off(machine: Snapshot) -> Problems:
    settings = effective(machine)
    if set_integer(settings, "NCCL_RAS_ENABLE", 1) != 0 or nccl_version(machine) < SINCE:
        return
    setting = settings["NCCL_RAS_ENABLE"]
    yield Problem(
        severity="info",
        summary=f"NCCL_RAS_ENABLE={setting.value}{where(setting)} turns NCCL's RAS service off",
        meaning="When a job hangs, NCCL cannot tell which rank the others wait for.",
        fix=Fix("Take it out.", commands=take_out(setting)),
        evidence=evidence(machine, setting, version_seen(machine)),
    )
