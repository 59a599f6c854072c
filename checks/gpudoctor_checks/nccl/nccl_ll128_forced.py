"""NCCL_PROTO asks for LL128.

Why it matters: LL128 rests on 128-byte stores arriving whole, which NCCL knows of each platform. NVIDIA's guide warns
that forcing it where NCCL would not choose it can corrupt data.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where


@check("nccl-ll128-forced", title="NCCL decides by itself where LL128 is safe")
def nccl_ll128_forced(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_PROTO")
    if setting is None or "^" in setting.value or "LL128" not in setting.value.upper():
        return
    yield Problem(
        severity="warning",
        summary=f"NCCL_PROTO={setting.value}{where(setting)} forces LL128",
        meaning="Where the platform does not keep 128-byte stores whole, collectives return wrong numbers.",
        fix=Fix("Take it out: NCCL uses LL128 wherever it is safe.", commands=take_out(setting)),
        evidence=evidence(machine, setting),
    )
