"""NCCL_NET_GDR_LEVEL or NCCL_P2P_LEVEL holds a number in place of a name.

Why it matters: the numbers are of an old scale that cannot name every path (there is none for NVLink), while logs print
those of another scale, which shifts between releases. NVIDIA's guide discourages them.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import effective, evidence, integer, where

OLD_SCALE = ("LOC", "PIX", "PXB", "PHB", "SYS")  # graph/paths.cc, levelsOldToNew; what is larger counts as the last


@check("nccl-gdr-level-integer", title="Path levels of NCCL are set by name")
def nccl_gdr_level_integer(machine: Snapshot) -> Problems:
    settings = effective(machine)
    for name in ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"):
        setting = settings.get(name)
        if setting is not None and setting.value[:1] in tuple("0123456789"):
            level = OLD_SCALE[min(integer(setting.value), len(OLD_SCALE) - 1)]
            yield Problem(
                severity="info",
                summary=f"{name}={setting.value[:20]}{where(setting)} is a number of an old scale; it means {level}",
                meaning="It works, and is easily misread: the numbers in NCCL's logs are of another scale.",
                fix=Fix("Write the name.", commands=set_to(setting, level)),
                evidence=evidence(machine, setting),
            )
