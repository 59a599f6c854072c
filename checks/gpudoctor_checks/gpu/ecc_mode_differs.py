"""GPUs of one model differ in their ECC mode.

Why it matters: with ECC, cards with GDDR memory have about 6 % less memory and are slower, so a batch that fits on one
GPU does not fit on the other, and the GPUs with ECC hold the others up. Those without it can compute with flipped bits.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.like_gpus import known, models, raise_unread


@check("ecc-mode-differs", title="GPUs of one model have the same ECC mode", short="ECC mode differs")
def ecc_mode_differs(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus):
        modes = known(group, lambda gpu: gpu.ecc_mode)
        on = [gpu for gpu, is_on in modes if is_on]
        off = [gpu for gpu, is_on in modes if not is_on]
        if on and off:
            yield Problem(
                severity="warning",
                summary=f"{group[0].name.value}: ECC is on for {labels(on)} and off for {labels(off)}",
                meaning="The GPUs differ in memory size and speed, and those without ECC can compute with flipped "
                "bits.",
                evidence=(on[0].ecc_mode, off[0].ecc_mode),
                gpus=tuple(gpu.index for gpu in (on if len(on) < len(off) else off)),
                fix=Fix(
                    "Switch ECC on everywhere; the next reset of the GPUs or restart of the machine puts it in force.",
                    (command("sudo nvidia-smi -i {:numbers} -e 1", comma_separated(off)),),
                ),
            )
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.ecc_mode for gpu in gpus)
