"""A variable is set that the installed NCCL does not read any more.

Why it matters: it has no effect. Such variables survive in scripts for years, and whoever reads them believes that the
job was tuned.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import dotted, effective, evidence, nccl_version, version_seen, where
from gpudoctor.knowledge.nccl.variables import RENAMED, table


@check("nccl-variable-gone", title="The installed NCCL still reads the variables that are set")
def nccl_variable_gone(machine: Snapshot) -> Problems:
    names = machine.network.nccl_names
    for setting in effective(machine).values():
        row = table().get(setting.name)
        if row is None or row.last is None or setting.name in names.value_or(()):
            continue
        version = nccl_version(machine)
        if row.standing(version) == "gone":
            successor = RENAMED.get(row.name)
            yield Problem(
                severity="info",
                summary=f"{row.name} is set{where(setting)}; NCCL {dotted(row.last)} was the last to read it, "
                f"this one is {dotted(version)}",
                meaning="It has no effect.",
                fix=Fix(
                    f"Take it out; {successor} took its place." if successor else "Take it out.",
                    commands=take_out(setting),
                ),
                evidence=evidence(machine, setting, version_seen(machine)),
            )
