"""NCCL_SHM_DISABLE is set on a machine with several GPUs.

Why it matters: GPUs that cannot reach each other directly then talk over the network even inside one machine. It is
the work-around for a small /dev/shm, which is easily enlarged.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import gpus_seen, has_several_gpus, nvlink_gpu_count
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, where


@check("nccl-shm-disabled", title="NCCL may use shared memory")
def nccl_shm_disabled(machine: Snapshot) -> Problems:
    settings = effective(machine)
    if not set_integer(settings, "NCCL_SHM_DISABLE", 0) or not has_several_gpus(machine):
        return
    setting = settings["NCCL_SHM_DISABLE"]
    linked = nvlink_gpu_count(machine)
    yield Problem(
        severity="info" if linked else "warning",
        summary=f"NCCL_SHM_DISABLE={setting.value}{where(setting)} on a machine with several GPUs",
        meaning="GPUs without a direct path send over the network inside the machine"
        + ("; those on NVLink are not concerned." if linked else ", several times slower."),
        fix=Fix(
            "Take it out. If NCCL then reports no space on /dev/shm, make that larger (check shm-too-small).",
            commands=take_out(setting),
        ),
        evidence=evidence(machine, setting, gpus_seen(machine)),
    )
