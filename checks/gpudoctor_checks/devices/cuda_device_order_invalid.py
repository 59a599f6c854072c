"""CUDA_DEVICE_ORDER has a value that CUDA does not know.

Why it matters: only FASTEST_FIRST and PCI_BUS_ID are defined, in capitals. A misspelt value does not fail: the numbers
are then most likely CUDA's default ones, and a job that was meant to follow nvidia-smi's takes other cards.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.visible.devices import ORDER_VARIABLE
from gpudoctor.knowledge.visible.now import selection, variable
from gpudoctor.knowledge.visible.words import advice, line_to_paste, meaning


@check("cuda-device-order-invalid", title="CUDA_DEVICE_ORDER is an order that CUDA knows")
def cuda_device_order_invalid(machine: Snapshot) -> Problems:
    now = selection(machine)
    for note in now.notes:
        if note.kind == "order-invalid":
            line = line_to_paste(note, now)
            yield Problem(
                severity="warning",
                summary=note.problem,
                meaning=meaning(note, now),
                fix=Fix(advice(note, now), commands=() if line is None else (line,)),
                evidence=(variable(machine, ORDER_VARIABLE),),
            )
