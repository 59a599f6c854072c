"""NCCL logs at INFO or TRACE.

Why it matters: that is for finding faults. In a large job it writes thousands of lines for every rank at the start, and
with more subsystems at every collective. WARN is enough to hear of errors.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_text, where


@check("nccl-debug-left-on", title="NCCL logs warnings only")
def nccl_debug_left_on(machine: Snapshot) -> Problems:
    settings = effective(machine)
    setting = settings.get("NCCL_DEBUG")
    if setting is not None and setting.value.upper() in ("INFO", "TRACE"):
        subsystems = set_text(settings, "NCCL_DEBUG_SUBSYS")
        yield Problem(
            severity="info",
            summary=f"NCCL_DEBUG={setting.value}{where(setting)}" + (f" for {subsystems}" if subsystems else ""),
            meaning="Every rank writes its choices to the log: useful to find a fault, much text otherwise.",
            fix=Fix("For production, WARN tells of errors only.", commands=set_to(setting, "WARN")),
            evidence=evidence(machine, setting),
        )
