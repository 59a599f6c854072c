"""Settings of NCCL come from a file.

Why it matters: NCCL reads ~/.nccl.conf and /etc/nccl.conf besides the environment. What stands there holds for every
job on this machine and is seen in none of its scripts; two machines may differ by it without a visible cause.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, effective, evidence
from gpudoctor.knowledge.wording import counted, listed


@check("nccl-settings-in-file", title="NCCL's settings stand in the environment only")
def nccl_settings_in_file(machine: Snapshot) -> Problems:
    settings = effective(machine).values()
    for path in dict.fromkeys(setting.origin for setting in settings if setting.origin != ENVIRONMENT):
        lines = [f"{setting.name}={setting.value[:40]}" for setting in settings if setting.origin == path]
        yield Problem(
            severity="info",
            summary=f"{path} gives NCCL {counted(len(lines), 'setting')}: {listed(lines)}",
            meaning="They hold for every job here, though no script shows them; the environment wins over them.",
            fix=Fix("Nothing to do if it is meant; every machine of a job should have the same file."),
            evidence=evidence(machine),
        )
