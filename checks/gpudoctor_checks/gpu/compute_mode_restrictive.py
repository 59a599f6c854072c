"""A GPU's compute mode lets only one process use it, or none.

Why it matters: in mode "prohibited" no CUDA program starts; in mode "exclusive-process" a second process on the GPU
fails with "all CUDA-capable devices are busy or unavailable": another rank's stray context on GPU 0 is enough.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.like_gpus import raise_unread


@check("compute-mode-restrictive", title="GPUs let several processes compute", short="compute mode")
def compute_mode_restrictive(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    restricted: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if gpu.compute_mode.is_read and gpu.compute_mode.value != "default":
            restricted.setdefault(gpu.compute_mode.value, []).append(gpu)
    for mode, same in restricted.items():
        prohibited = mode == "prohibited"
        yield Problem(
            severity="error" if prohibited else "warning",
            summary=f"{labels(same)}: compute mode {mode}; the default lets several processes in",
            meaning="No CUDA program can use these GPUs."
            if prohibited
            else 'A second process on such a GPU fails with "all CUDA-capable devices are busy or unavailable": two '
            "ranks on one GPU, a stray context, a notebook. One process for each GPU works.",
            evidence=(same[0].compute_mode,),
            gpus=tuple(gpu.index for gpu in same),
            fix=Fix(
                "Set the mode back, unless the cluster's operator wants it; under MPS it is meant to be "
                "exclusive-process.",
                commands=(command("sudo nvidia-smi -i {:numbers} -c DEFAULT", comma_separated(same)),),
            ),
        )
    raise_unread(gpu.compute_mode for gpu in gpus)
