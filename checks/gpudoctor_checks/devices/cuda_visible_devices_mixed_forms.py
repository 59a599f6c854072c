"""CUDA_VISIBLE_DEVICES mixes numbers and UUIDs.

Why it matters: which of such a list CUDA takes is not documented, and programs that read the variable themselves
(PyTorch among them) stop at the first entry of the other form. Parts of one job can then disagree about their GPUs.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning


@check("cuda-visible-devices-mixed-forms", title="CUDA_VISIBLE_DEVICES uses numbers or UUIDs, not both")
def cuda_visible_devices_mixed_forms(machine: Snapshot) -> Problems:
    now = selection(machine)
    for note in now.notes:
        if note.kind == "mixed-forms":
            line = line_to_paste(note, now)
            yield Problem(
                severity="error",
                summary=f"{VARIABLE}: {note.problem}",
                meaning=meaning(note, now),
                fix=Fix(advice(note, now), commands=() if line is None else (line,)),
                evidence=(variable(machine, VARIABLE), gpu_list(machine)),
            )
