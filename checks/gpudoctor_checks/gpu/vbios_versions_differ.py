"""GPUs of one model have different VBIOS versions.

Why it matters: a board that was replaced or updated by itself can have other clocks, power limits or NVLink settings
than its peers, and behaves differently in ways that are hard to find.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import labels
from gpudoctor.knowledge.gpus.gpu_models import is_datacenter
from gpudoctor.knowledge.gpus.like_gpus import models, raise_unread


@check("vbios-versions-differ", title="GPUs of one model have one VBIOS version", short="VBIOS differs")
def vbios_versions_differ(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus):
        if not is_datacenter(group[0].name.value):  # card makers ship GeForce cards of one name with their own VBIOS
            continue
        versions: dict[str, list[Gpu]] = {}
        for gpu in group:
            if gpu.vbios_version.is_read:
                versions.setdefault(gpu.vbios_version.value, []).append(gpu)
        if len(versions) > 1:
            usual = max(versions.values(), key=len)
            yield Problem(
                severity="info",
                summary=f"{group[0].name.value}: VBIOS "
                + "; ".join(f"{version} on {labels(same)}" for version, same in versions.items()),
                meaning="Clocks, power limits or NVLink settings of these GPUs may differ, and with them their speed.",
                evidence=tuple(same[0].vbios_version for same in versions.values()),
                gpus=tuple(gpu.index for same in versions.values() if same is not usual for gpu in same),
                fix=Fix(
                    "Ask the machine's vendor for the firmware bundle that brings all boards to one version.",
                    commands=(command("nvidia-smi --query-gpu=index,name,vbios_version,serial --format=csv"),),
                ),
            )
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.vbios_version for gpu in gpus)
