"""An entry of CUDA_VISIBLE_DEVICES does not name a GPU, and CUDA drops it and everything behind it.

Why it matters: CUDA says nothing about it. The list ends at the first entry that is out of range, negative, unknown or
ambiguous, so the job runs on fewer GPUs than were asked for, or finds none; "0-3" is read as 0 alone, and a UUID
without "GPU-" as the number it begins with, which is another card. `gpudoctor devices` shows what a value selects.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check
from gpudoctor.knowledge.visible.devices import VARIABLE, select_on
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.visible.selection import Note, Selection, SelectionKind
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning

ENDS_THE_LIST: tuple[SelectionKind, ...] = (
    "out-of-range",
    "negative",
    "not-a-number",
    "blank",
    "wrong-case",
    "missing-prefix",
    "unknown-uuid",
    "ambiguous-uuid",
    "unreachable",
)
READ_OTHERWISE: tuple[SelectionKind, ...] = ("ignored-text", "number-format")


@check("cuda-visible-devices-entry-invalid", title="Every entry of CUDA_VISIBLE_DEVICES names a GPU")
def cuda_visible_devices_entry_invalid(machine: Snapshot) -> Problems:
    now = selection(machine)
    for note in now.notes:
        if note.kind == "out-of-range" and machine.host.container.value_or("none") != "none":
            continue  # in a container this has a cause of its own: host-index-in-container
        if note.kind in ENDS_THE_LIST or note.kind in READ_OTHERWISE:
            line = line_to_paste(note, now)
            yield Problem(
                severity=_severity(note, now, machine),
                summary=f"{VARIABLE}: {note.problem}",
                meaning=meaning(note, now),
                fix=Fix(advice(note, now), commands=() if line is None else (line,)),
                evidence=(variable(machine, VARIABLE), gpu_list(machine)),
            )


def _severity(note: Note, now: Selection, machine: Snapshot) -> Severity:
    """A warning where the program gets what was meant all the same, as with "1gpu"."""
    if note.kind == "number-format":
        return "warning"
    if not note.lost and now.suggested is not None:
        meant = select_on(machine, now.suggested)
        return "warning" if meant.devices == now.devices else "error"
    return "error"
