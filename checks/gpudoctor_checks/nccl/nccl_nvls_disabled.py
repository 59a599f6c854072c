"""NCCL_NVLS_ENABLE=0 on a machine whose NVSwitch can add up for the GPUs.

Why it matters: all_reduce falls back to rings. On 8 H100 its bus bandwidth is about 370 GB/s in place of 480. It is the
work-around for multicast memory that cannot be bound, which Fabric Manager is to blame for.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.fabric import gpus_seen, has_nvlink_sharp
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, where

AUTOMATIC = 2  # init.cc: 2 asks the hardware, since 2.18


@check("nccl-nvls-disabled", title="NCCL may use NVLink SHARP")
def nccl_nvls_disabled(machine: Snapshot) -> Problems:
    settings = effective(machine)
    if set_integer(settings, "NCCL_NVLS_ENABLE", AUTOMATIC) != 0 or not has_nvlink_sharp(machine):
        return
    setting = settings["NCCL_NVLS_ENABLE"]
    yield Problem(
        severity="warning",
        summary=f"NCCL_NVLS_ENABLE={setting.value}{where(setting)} on GPUs behind an NVSwitch that could reduce",
        # 360-370 against 460-480 GB/s: nccl-tests issue 212, Azure NDv5's alarm line
        meaning="all_reduce inside this machine loses about a fifth of its bandwidth.",
        fix=Fix(
            "Take it out. If NCCL then fails to bind multicast memory, repair Fabric Manager.",
            commands=(*take_out(setting), command("systemctl status nvidia-fabricmanager")),
        ),
        evidence=evidence(machine, setting, gpus_seen(machine)),
    )
