"""A GPU's InfoROM is corrupted.

Why it matters: the InfoROM holds the board's identity, its ECC history and the list of remapped memory. When it is
corrupted, faulty memory may be forgotten after a reboot and features such as ECC or persistence may be off.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label


@gpu_check("inforom-corrupted", title="The InfoROM is valid", short="InfoROM corrupted")
def inforom_corrupted(gpu: Gpu, machine: Snapshot) -> Problems:
    if not gpu.inforom_valid.value:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} has a corrupted InfoROM",
            meaning="The record of faulty memory may be lost, so that errors already dealt with can come back.",
            evidence=(gpu.inforom_valid,),
            fix=Fix.of(
                "Reboot once; when the InfoROM is still corrupted, have the board vendor rewrite it or replace the "
                "board.",
                command("nvidia-smi -q -i {:number} -d ECC,ROW_REMAPPER", gpu.index),
                command("sudo nvidia-bug-report.sh"),
            ),
        )
