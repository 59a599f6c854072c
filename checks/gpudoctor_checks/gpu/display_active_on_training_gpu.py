"""A display runs on one of several GPUs.

Why it matters: the desktop takes some of that GPU's memory and time, so the rank on it runs out of memory first and
holds the others up a little. With one GPU there is no choice, and nothing is said.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.like_gpus import raise_unread


@check("display-active-on-training-gpu", title="No display runs on one of several GPUs", short="drives a display")
def display_active_on_training_gpu(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    shown = [gpu for gpu in gpus if gpu.display_active.is_read and gpu.display_active.value]
    free = [gpu for gpu in gpus if gpu.display_active.is_read and not gpu.display_active.value]
    if shown and free:
        yield Problem(
            severity="info",
            summary=f"{labels(shown)} drives a display, {labels(free)} does not"
            if len(free) == 1
            else f"{labels(shown)} drives a display, {labels(free)} do not",
            meaning="The desktop takes memory and time from the rank on this GPU.",
            evidence=(shown[0].display_active, free[0].display_active),
            gpus=tuple(gpu.index for gpu in shown),
            fix=Fix.of(
                "Where memory is tight, leave this GPU to the desktop, or run without one.",
                command("export CUDA_DEVICE_ORDER=PCI_BUS_ID"),
                command("export CUDA_VISIBLE_DEVICES={:numbers}", comma_separated(free)),
            ),
        )
    raise_unread(gpu.display_active for gpu in gpus)
