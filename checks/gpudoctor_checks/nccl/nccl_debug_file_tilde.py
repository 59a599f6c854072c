"""NCCL_DEBUG_FILE begins with "~", which NCCL does not expand.

Why it matters: NCCL opens the path as it stands. There is no folder called "~", so the log goes to standard output as
if the variable were not set.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, effective, evidence, where


@check("nccl-debug-file-tilde", title="NCCL_DEBUG_FILE is a path that NCCL can open")
def nccl_debug_file_tilde(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_DEBUG_FILE")
    if setting is not None and setting.value.startswith("~"):
        is_variable = setting.origin == ENVIRONMENT
        yield Problem(
            severity="warning",
            summary=f'NCCL_DEBUG_FILE is {setting.value}{where(setting)}; NCCL does not expand "~"',
            meaning="The log is not written to that file; it goes to standard output.",
            fix=Fix(
                "Write the whole path; %h and %p keep the ranks apart.",
                commands=(command('export NCCL_DEBUG_FILE="$HOME/nccl.%h.%p.log"'),) if is_variable else (),
            ),
            evidence=evidence(machine, setting),
        )
