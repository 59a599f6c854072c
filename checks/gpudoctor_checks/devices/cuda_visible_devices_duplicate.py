"""CUDA_VISIBLE_DEVICES names a GPU twice, and CUDA drops the whole list.

Why it matters: a repeated device is not ignored. With "0,1,1" a program finds no GPU at all, and frameworks report
that CUDA is not available. It happens when a launcher appends to a list that is there already.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning


@check("cuda-visible-devices-duplicate", title="CUDA_VISIBLE_DEVICES names each GPU once")
def cuda_visible_devices_duplicate(machine: Snapshot) -> Problems:
    now = selection(machine)
    for note in now.notes:
        if note.kind == "duplicate":
            line = line_to_paste(note, now)
            yield Problem(
                severity="error",
                summary=f"{VARIABLE}: {note.problem}",
                meaning=meaning(note, now),
                fix=Fix(advice(note, now), commands=() if line is None else (line,)),
                evidence=(variable(machine, VARIABLE), gpu_list(machine)),
            )
