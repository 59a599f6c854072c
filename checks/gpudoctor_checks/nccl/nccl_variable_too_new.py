"""A variable is set that only a later NCCL reads.

Why it matters: the installed NCCL passes it over without a word. Advice for a newer release then looks followed, and
changes nothing.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import dotted, effective, evidence, nccl_version, version_seen, where
from gpudoctor.knowledge.nccl.variables import OLDEST_IN_TABLE, table


@check("nccl-variable-too-new", title="The installed NCCL is new enough for the variables that are set")
def nccl_variable_too_new(machine: Snapshot) -> Problems:
    names = machine.network.nccl_names
    for setting in effective(machine).values():
        row = table().get(setting.name)
        if row is None or row.since <= OLDEST_IN_TABLE or setting.name in names.value_or(()):
            continue
        version = nccl_version(machine)
        if row.standing(version) == "too-new":
            yield Problem(
                severity="warning",
                summary=f"{row.name} is set{where(setting)}; NCCL reads it from {dotted(row.since)} on, "
                f"this one is {dotted(version)}",
                meaning=f"It has no effect here ({row.purpose}).",
                fix=Fix("Take it out, or use a torch that brings a later NCCL.", commands=take_out(setting)),
                evidence=evidence(machine, setting, version_seen(machine)),
            )
