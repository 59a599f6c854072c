"""Heat or the power supply holds a GPU's clocks down.

Why it matters: in data-parallel training every step waits for the slowest GPU, so one GPU at half its clock halves the
speed of the whole job, on all machines. Idle clocks, the power cap and clocks set by a user are not meant here.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus import clock_events
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.gpus.gpu_models import is_laptop

HEAT = clock_events.HW_THERMAL | clock_events.SW_THERMAL


@gpu_check(
    "clocks-held-down",
    title="Neither heat nor the power supply holds the clocks down",
    short="clocks held down",
    follows=("gpu-too-hot", "memory-too-hot"),
)
def clocks_held_down(gpu: Gpu, machine: Snapshot) -> Problems:
    events = clock_events.harmful(gpu.clock_event_reasons.value)
    if not events:
        return
    hot = any(event.bit & HEAT for event in events)
    on_battery = not hot and is_laptop(gpu.name.value)  # a notebook brakes when it runs on battery or a small charger
    degrees = gpu.temperature_celsius
    clock = gpu.clock_sm_mhz
    yield Problem(
        severity="info" if on_battery else "warning",
        summary=f"{label(gpu)} clocks are held down by "
        + " and ".join(event.name for event in events)
        + (f" at {degrees.value} °C" if hot and degrees.is_read else "")
        + (f", now {clock.value} MHz" if clock.is_read else "")
        + (f" of {gpu.clock_sm_max_mhz.value} MHz" if clock.is_read and gpu.clock_sm_max_mhz.is_read else ""),
        meaning="; ".join(f"{event.name}: {event.meaning}" for event in events)
        + ". Every other GPU of a job waits for this one.",
        evidence=(gpu.clock_event_reasons, *((degrees,) if degrees.is_read else ())),
        fix=Fix.of(
            "Clear the air path, look at the fans and the room's temperature."
            if hot
            else "Plug in the notebook's own charger."
            if on_battery
            else "Look at the power cables, the power supplies and the chassis' power limit.",
            command("nvidia-smi -q -i {:number} -d PERFORMANCE,TEMPERATURE,POWER", gpu.index),
            command("nvidia-smi dmon -i {:number} -s pcv -c 10", gpu.index),
        ),
    )
