"""A GPU in MIG mode hides the other GPUs of the machine from CUDA.

Why it matters: before driver R570 a CUDA program gets a single MIG device, and as soon as it gets one it is not given
any whole GPU beside it. One divided card makes a machine of many GPUs look like a fraction of one.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import numbers
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.visible.devices import FIRST_SEVERAL_MIG_DRIVER, VARIABLE
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.wording import counted


@check("mig-hides-other-gpus", title="No MIG device hides whole GPUs")
def mig_hides_other_gpus(machine: Snapshot) -> Problems:
    driver, gpus = machine.nvidia.driver_version, machine.nvidia.gpus
    major = driver.value.partition(".")[0]
    whole = [gpu for gpu in gpus.value if not if_present(gpu.mig_mode)]
    if not major.isdigit() or int(major) >= FIRST_SEVERAL_MIG_DRIVER:
        return
    divided = [gpu for gpu in gpus.value if if_present(gpu.mig_devices)]
    now = selection(machine)
    if not divided or not whole or not any(device.mig is not None for device in now.devices):
        return
    wanted = [gpu for gpu in whole if gpu.uuid.is_read]
    yield Problem(
        severity="warning",
        summary=f"{numbers(gpu.index for gpu in divided)} in MIG mode: with driver {driver.value}, CUDA hides "
        f"{_count(whole)} beside a MIG device",
        meaning="A CUDA program gets one MIG device and no whole GPU.",
        fix=Fix(
            f"Select the whole GPUs, or upgrade to a driver of branch R{FIRST_SEVERAL_MIG_DRIVER} or later.",
            commands=(command("export {:variable}={:value}", VARIABLE, ",".join(gpu.uuid.value for gpu in wanted)),)
            if wanted
            else (),
        ),
        evidence=(driver, gpu_list(machine), variable(machine, VARIABLE)),
        gpus=tuple(gpu.index for gpu in divided),
    )


def _count(whole: list[Gpu]) -> str:
    return f"{counted(len(whole), 'whole GPU')} ({numbers(gpu.index for gpu in whole)})"
