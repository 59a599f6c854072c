"""CPUs run under a governor that may keep their clock low.

Why it matters: the thread that launches kernels runs on one CPU, and small kernels wait for it. With intel_pstate
and amd-pstate the governor "powersave" still raises the clock under load and costs little, so this is a remark and
no warning; with older drivers it pins the CPU to its lowest clock.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.snapshot import require

# gcm asks for "performance"; ondemand, schedutil and conservative follow the load under every driver.
SLOW = ("powersave", "userspace")


@check("cpu-governor-slow", title="CPUs clock up for the training process")
def cpu_governor_slow(machine: Snapshot) -> Problems:
    require(machine.nvidia.gpus)  # a machine without a GPU waits for no launches
    governors = machine.host.cpu_governors
    slow = {name: count for name, count in governors.value.items() if name in SLOW}
    if slow:
        seen = ", ".join(
            f'{count} of {sum(governors.value.values())} CPUs under "{name}"' for name, count in slow.items()
        )
        yield Problem(
            severity="info",
            summary=f'{seen}; "performance" launches kernels soonest',
            meaning="Models with many small kernels can wait for the CPU; large matrix products do not notice.",
            evidence=(governors,),
            fix=Fix.of(
                "Until the next restart: root writes `performance` into "
                "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor.",
                command("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
            ),
        )
