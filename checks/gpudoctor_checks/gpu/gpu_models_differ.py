"""The machine has GPUs of different models.

Why it matters: in data-parallel training every step waits for the slowest GPU, the smallest memory bounds the batch,
and CUDA's numbering can differ from nvidia-smi's, because CUDA counts the fastest GPU first.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.like_gpus import models, raise_unread
from gpudoctor.knowledge.wording import gpus as named


@check("gpu-models-differ", title="All GPUs are of one model", short="other model")
def gpu_models_differ(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    groups = models(gpus)
    if len(groups) > 1:
        largest = max(groups, key=len)
        yield Problem(
            severity="info",
            summary="Different GPU models: "
            + "; ".join(f"{group[0].name.value} ({named([gpu.index for gpu in group])})" for group in groups),
            meaning="A job over all of them runs at the pace of the slowest and with the memory of the smallest.",
            evidence=tuple(group[0].name for group in groups),
            gpus=tuple(gpu.index for group in groups if group is not largest for gpu in group),
            fix=Fix.of(
                f"Train on GPUs of one model, and number them as nvidia-smi does: the lines choose {labels(largest)}.",
                command("export CUDA_DEVICE_ORDER=PCI_BUS_ID"),
                command("export CUDA_VISIBLE_DEVICES={:numbers}", comma_separated(largest)),
            ),
        )
    raise_unread(gpu.name for gpu in gpus)
