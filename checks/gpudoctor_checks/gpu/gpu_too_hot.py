"""A GPU is close to the temperature at which it slows down.

Why it matters: the check runs before the job. A GPU that is this hot already has poor cooling or other work, and under
load it lowers its clocks, which slows every GPU of a data-parallel job; further up it shuts down.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label

MARGIN_CELSIUS = 3  # our rule of thumb: sensor steps and fan control; gpud warns at the limit and has its margin off


@gpu_check("gpu-too-hot", title="GPU temperatures are below slowdown", short="too hot")
def gpu_too_hot(gpu: Gpu, machine: Snapshot) -> Problems:
    degrees, limit = gpu.temperature_celsius.value, gpu.temperature_slowdown_celsius.value
    if degrees >= limit - MARGIN_CELSIUS:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} is at {degrees} °C; it slows down at {limit} °C",
            meaning="Its clocks drop under load, and every other GPU of the job waits for it.",
            evidence=(gpu.temperature_celsius, gpu.temperature_slowdown_celsius),
            fix=Fix.of(
                "Clear the air path, look at the fans and the room's temperature, and see what else runs on this GPU.",
                command("nvidia-smi -q -i {:number} -d TEMPERATURE", gpu.index),
                command("nvidia-smi dmon -i {:number} -s p -c 10", gpu.index),
            ),
        )
