"""None of the CPUs near a GPU may be used from here.

Why it matters: a rank that runs on the other socket sends every copy to its GPU over the link between the sockets.
Copies and kernel launches slow down, and the ranks on the right socket wait for it in every collective.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_of_job
from gpudoctor.knowledge.presence import if_present, read_first
from gpudoctor.knowledge.wording import gpus as named, ranges


@check("gpu-cpus-excluded", title="CPUs near each GPU may be used")
def gpu_cpus_excluded(machine: Snapshot) -> Problems:
    allowed = machine.host.cpus_allowed
    mine = frozenset(allowed.value)
    cards = read_first(machine.nvidia.gpus.value, lambda gpu: gpu.cpu_affinity)
    far: dict[tuple[int, ...], list[int]] = {}
    for gpu in cards:
        near = gpu.cpu_affinity.value_or(())
        if near and not mine.intersection(near) and is_of_job(gpu, machine):
            far.setdefault(tuple(near), []).append(gpu.index)
    for near, indices in far.items():
        yield Problem(
            severity="warning",
            summary=f"{named(indices)}: the CPUs nearby ({ranges(near)}) are outside those allowed here "
            f"({ranges(mine)})",
            meaning="Every copy to these GPUs crosses the sockets, and the other ranks wait for theirs.",
            evidence=(allowed, *(gpu.cpu_affinity for gpu in cards if gpu.index in indices)),
            fix=Fix(
                "Allow the CPUs near the GPUs: in this shell as below; in SLURM with `srun --cpu-bind=none` or "
                "`--gpu-bind=closest`; for a container with `--cpuset-cpus`.",
                commands=(command("taskset -pc {:numbers} $$", ranges((*mine, *near))),),
            ),
            gpus=tuple(indices),
        )
    for gpu in cards:
        if_present(gpu.cpu_affinity)
