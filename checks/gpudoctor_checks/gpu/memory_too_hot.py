"""A GPU's memory is at its maximum temperature.

Why it matters: hot HBM slows down, and its bit errors increase. The memory can be too hot while the GPU core looks
fine.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label


@gpu_check("memory-too-hot", title="GPU memory temperatures are below their maximum", short="memory too hot")
def memory_too_hot(gpu: Gpu, machine: Snapshot) -> Problems:
    # The limit is the GPU's own (nvmlDeviceGetTemperatureThreshold, memory maximum), as gpud judges it.
    degrees, limit = gpu.memory_temperature_celsius.value, gpu.memory_temperature_max_celsius.value
    if degrees >= limit:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} memory is at {degrees} °C; its maximum is {limit} °C",
            meaning="The memory clock drops and memory errors become more likely.",
            evidence=(gpu.memory_temperature_celsius, gpu.memory_temperature_max_celsius),
            fix=Fix.of(
                "Clear the air path, look at the fans and the room's temperature; on a card with its own cooler, the "
                "thermal pads of the memory.",
                command("nvidia-smi -q -i {:number} -d TEMPERATURE", gpu.index),
                command("nvidia-smi dmon -i {:number} -s p -c 10", gpu.index),
            ),
        )
