"""CUDA_VISIBLE_DEVICES carries the host's GPU numbers into a container that has fewer GPUs.

Why it matters: inside a container (and inside a Slurm job with device cgroups) the GPUs are numbered from 0 again. A
number taken from the host points past the last of them, the list ends there, and often no GPU is left.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.nvidia_hardware import in_container
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.entries import shown
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.visible.words import meaning
from gpudoctor.knowledge.wording import counted


@check("host-index-in-container", title="CUDA_VISIBLE_DEVICES counts the container's own GPUs")
def host_index_in_container(machine: Snapshot) -> Problems:
    now = selection(machine)
    if not in_container(machine):
        return
    count = len(now.enumeration.slots)
    for note in now.notes:
        if note.kind == "out-of-range" and count:
            yield Problem(
                severity="error",
                summary=f"{VARIABLE}: entry {(note.position or 0) + 1} ({shown(note.entry or '')}) is past the "
                f"{counted(count, 'GPU')} of this container, which are numbered from 0",
                meaning=meaning(note, now),
                fix=Fix(
                    "The container is limited to its GPUs already: take the variable away, or count from 0.",
                    commands=(command("unset {:variable}", VARIABLE),),
                ),
                evidence=(variable(machine, VARIABLE), gpu_list(machine), machine.host.container),
            )
