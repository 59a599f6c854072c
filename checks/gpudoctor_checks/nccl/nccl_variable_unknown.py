"""A variable begins with NCCL_ and nothing reads it.

Why it matters: NCCL never complains of a name it does not know. A misspelt variable has no effect, and the person who
set it believes that it has. NCCL_TIMEOUT is the most common one: it exists in scripts only.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to, take_out
from gpudoctor.knowledge.nccl.settings import Setting, effective, evidence, where
from gpudoctor.knowledge.nccl.variables import INVENTED, is_known, nearest
from gpudoctor.snapshot import read


@check("nccl-variable-unknown", title="Every NCCL_ variable is one that NCCL reads")
def nccl_variable_unknown(machine: Snapshot) -> Problems:
    names = machine.network.nccl_names
    doubtful: list[Setting] = []
    for name, setting in effective(machine).items():
        if is_known(name) or name in names.value_or(()):
            continue
        if name in INVENTED:
            yield _problem(machine, setting, INVENTED[name])
        else:
            doubtful.append(setting)
    for setting in doubtful:
        # A release newer than our table may read it; the library's own strings decide.
        near = nearest(setting.name, names.value)
        yield _problem(machine, setting, f"the nearest known name is {near}" if near else "", near)


def _problem(machine: Snapshot, setting: Setting, advice: str, near: str = "") -> Problem:
    corrected = near or setting.name.removesuffix("D")
    names = machine.network.nccl_names
    library = (read(names.source, f"{len(names.value)} other names of NCCL"),) if names.is_read else ()
    has_successor = bool(near) or "without the D" in advice
    return Problem(
        severity="warning",
        summary=f"{setting.name} is set{where(setting)}, and nothing reads it" + (f"; {advice}" if advice else ""),
        meaning="It has no effect: what it was meant to change is as it would be without it.",
        fix=Fix(
            f"Set {corrected} in its place." if has_successor else "Take it out.",
            commands=set_to(setting, setting.value, corrected) if has_successor else take_out(setting),
        ),
        evidence=evidence(machine, setting, *library),
    )
