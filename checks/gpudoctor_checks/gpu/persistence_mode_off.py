"""Persistence mode is off on a server's GPUs.

Why it matters: with it off, the driver shuts a GPU down when its last process ends. The next job waits seconds for each
GPU, clocks and power limits that were set are lost, and so are the counters of memory errors.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.gpu_models import is_datacenter
from gpudoctor.knowledge.gpus.like_gpus import raise_unread
from gpudoctor.knowledge.gpus.nvidia_hardware import perhaps_in_container, perhaps_in_virtual_machine


@check("persistence-mode-off", title="The driver keeps idle GPUs initialised", short="no persistence")
def persistence_mode_off(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    off = [
        gpu
        for gpu in gpus
        # A desktop's display keeps the driver loaded, and off is what GeForce and workstation drivers ship with.
        if gpu.persistence_mode.is_read and not gpu.persistence_mode.value and is_datacenter(gpu.name.value)
    ]
    if off:
        # DCGM warns wherever it is off. Here a server with several GPUs: with one, or in a VM, little is lost by it.
        is_server = len(gpus) > 1 and not perhaps_in_virtual_machine(machine)
        outside = (
            " on the host, since a container cannot change it" if perhaps_in_container(machine) is not False else ""
        )
        yield Problem(
            severity="warning" if is_server else "info",
            summary=f"{labels(off)}: persistence mode is off",
            meaning="Each job waits seconds until the driver has initialised the GPUs, and error counters start at "
            "zero.",
            evidence=(off[0].persistence_mode,),
            gpus=tuple(gpu.index for gpu in off),
            fix=Fix.of(
                f"Switch it on{outside}; the service does it at every boot.",
                command("sudo nvidia-smi -i {:numbers} -pm 1", comma_separated(off)),
                command("sudo systemctl enable --now nvidia-persistenced"),
            ),
        )
    raise_unread(gpu.persistence_mode for gpu in gpus)
