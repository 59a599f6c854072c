"""GPUs are kept from reading each other's memory: NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL=LOC.

Why it matters: all traffic between the GPUs of this machine goes through host memory, at a tenth of NVLink's rate or
less. It is the work-around for a hang that IOMMU or ACS causes, and should not outlive the cure.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import gpus_seen, has_several_gpus, nvlink_gpu_count
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import Setting, effective, evidence, integer, where
from gpudoctor.knowledge.wording import counted


@check("nccl-p2p-disabled", title="GPUs may read each other's memory")
def nccl_p2p_disabled(machine: Snapshot) -> Problems:
    setting = _cause(effective(machine))
    if setting is None or not has_several_gpus(machine):
        return
    linked = nvlink_gpu_count(machine)
    yield Problem(
        severity="warning" if linked else "info",
        summary=f"{setting.name}={setting.value}{where(setting)} on a machine with {counted(linked, 'GPU')} on NVLink"
        if linked
        else f"{setting.name}={setting.value}{where(setting)}: GPUs talk through host memory",
        meaning="NVLink lies idle; collectives inside this machine run at a tenth of their rate or less."
        if linked
        else "Where PCIe peer access works, collectives inside this machine are slower than they could be.",
        fix=Fix(
            "Take it out. If NCCL then hangs, cure the cause: ACS on PCIe bridges or IOMMU translation "
            "(acs-redirects-peer-traffic, iommu-translation-on).",
            commands=take_out(setting),
        ),
        evidence=evidence(machine, setting, gpus_seen(machine)),
    )


def _cause(settings: dict[str, Setting]) -> Setting | None:
    """The setting that turns P2P off. NCCL looks for the very number 1 (graph/paths.cc, ncclGetLevel)."""
    disable, level = settings.get("NCCL_P2P_DISABLE"), settings.get("NCCL_P2P_LEVEL")
    if disable and integer(disable.value) == 1:
        return disable
    if level and (level.value == "LOC" or (level.value[:1].isdigit() and integer(level.value) == 0)):
        return level
    return None
