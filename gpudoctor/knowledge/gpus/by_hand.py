"""What only hands can mend: on a machine of the reader's own, and where somebody else opens it.

Nobody reseats an SXM module but the vendor, and nobody but the provider what is behind a virtual machine.
"""

from gpudoctor.command import Command, command
from gpudoctor.knowledge.gpus.gpu_models import is_on_baseboard
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_virtual_machine
from gpudoctor.snapshot import Snapshot

REPORT = "Report it to the provider or the vendor of the machine, with the file that the line writes."


def is_others_to_open(machine: Snapshot) -> bool:
    """Whether the hardware is a board or behind a virtual machine: not the reader's to take apart."""
    gpus = machine.nvidia.gpus.value_or(())
    return any(is_on_baseboard(gpu.name.value_or("")) for gpu in gpus) or bool(perhaps_in_virtual_machine(machine))


def by_hand(machine: Snapshot, text: str, *looks: Command, first: str = "") -> tuple[str, tuple[Command, ...]]:
    """Text and lines of a fix. `first`: what is tried before, wherever the machine stands."""
    before = f"{first} " if first else ""
    if is_others_to_open(machine):
        return before + REPORT, (command("gpudoctor capture -o gpudoctor-capture.json"), *looks)
    return before + text, looks
