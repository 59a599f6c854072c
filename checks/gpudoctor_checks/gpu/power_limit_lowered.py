"""A GPU's power limit is below its default.

Why it matters: under load the limit sets the clocks. A GPU with a lower limit than its peers is slower, and in
data-parallel training every other GPU waits for it.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import comma_separated, labels
from gpudoctor.knowledge.gpus.gpu_models import is_laptop
from gpudoctor.knowledge.gpus.like_gpus import models, raise_unread

ROUNDING = 0.99  # our rule of thumb: limits are set in whole watts, and boards report their default with decimals


@check("power-limit-lowered", title="Power limits are at their default", short="power limit low")
def power_limit_lowered(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus):
        if is_laptop(group[0].name.value):  # firmware moves a notebook's limit with charger, battery and CPU load
            continue
        lowered: dict[tuple[float, float], list[Gpu]] = {}
        judged = [gpu for gpu in group if gpu.power_limit_watts.is_read and gpu.power_limit_default_watts.is_read]
        for gpu in judged:
            limit, default = gpu.power_limit_watts.value, gpu.power_limit_default_watts.value
            if limit < default * ROUNDING:
                lowered.setdefault((limit, default), []).append(gpu)
        for (limit, default), same in lowered.items():
            rest = [gpu for gpu in judged if gpu not in same]
            yield Problem(
                severity="warning",
                summary=f"{labels(same)}: power limit {limit:.0f} W; the default is {default:.0f} W",
                meaning="Clocks drop under load"
                + (f", and {labels(rest)} of the same model will wait in every step." if rest else "."),
                evidence=(same[0].power_limit_watts, same[0].power_limit_default_watts),
                gpus=tuple(gpu.index for gpu in same),
                fix=Fix.of(
                    "Unless the limit is meant (cooling, power budget), set it back. It does not survive a reboot: "
                    "look for the service that sets it. If it cannot be raised, look at the power cables.",
                    command("sudo nvidia-smi -i {:numbers} -pl {:number}", comma_separated(same), f"{default:.0f}"),
                ),
            )
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.power_limit_watts for gpu in gpus)
    raise_unread(gpu.power_limit_default_watts for gpu in gpus)
