"""NCCL_ALGO or NCCL_PROTO restricts the algorithms.

Why it matters: NCCL chooses by size, topology and collective. A restriction for a test costs bandwidth in production,
and from 2.24 on a collective for which nothing is left fails: "No algorithm/protocol available".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, version_if_known, where

STRICT_SINCE = (2, 24, 3)


@check("nccl-algorithm-forced", title="NCCL chooses its algorithms by itself")
def nccl_algorithm_forced(machine: Snapshot) -> Problems:
    settings = effective(machine)
    forced = [settings[name] for name in ("NCCL_ALGO", "NCCL_PROTO") if name in settings and settings[name].value]
    if forced:
        version = version_if_known(machine)
        strict = " Collectives that have none of them fail." if version and version >= STRICT_SINCE else ""
        yield Problem(
            severity="info",
            summary=" and ".join(f"{one.name}={one.value[:60]}{where(one)}" for one in forced)
            + " in place of NCCL's choice",
            meaning=f"Some sizes and collectives run slower than they could.{strict}",
            fix=Fix("Keep it for tests of links (Ring); take it out for training.", commands=take_out(*forced)),
            evidence=evidence(machine, *forced),
        )
