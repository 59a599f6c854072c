"""The driver itself asks for a GPU to be reset, drained or the machine rebooted.

Why it matters: since driver 570 NVML sums up what a GPU needs to recover from its errors. Work that is started before
that runs on a GPU that the driver holds to be broken.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.explaining import GPU_LOST, MEMORY_WORN_OUT
from gpudoctor.knowledge.gpus.gpu_labels import label, reset
from gpudoctor.knowledge.gpus.gpu_readings import readings
from gpudoctor.snapshot import require

NEEDS_RESET = "requires a reset"

# NVML_GPU_RECOVERY_ACTION_* of nvml.h: what the driver asks for, and whether the GPU's own reset is enough.
ACTIONS = {
    1: ("a GPU reset", True),
    2: ("a reboot of the machine", False),
    3: ("all work that uses peer-to-peer with it to be drained", False),
    4: ("work to be drained and the GPU reset", True),
    5: ("the IMEX domain to be recovered", False),
    6: ("a reset of its bus", False),
    7: ("a reboot of the machine", False),
}


@gpu_check(
    "gpu-recovery-action-needed",
    title="The driver asks for no reset or reboot",
    short="wants a reset",
    follows=(*GPU_LOST, *MEMORY_WORN_OUT),
)
def gpu_recovery_action_needed(gpu: Gpu, machine: Snapshot) -> Problems:
    reading = gpu.recovery_action
    action = reading.value_or(0)
    if action == 0:
        asks = next((reading for reading in readings(gpu) if NEEDS_RESET in reading.reason.casefold()), None)
        if asks is None:
            require(reading)
            return
        reading, action = asks, 1  # NVML error 16: it refuses all else until then
    wanted, reset_is_enough = ACTIONS.get(action, (f"recovery action {action}", False))
    yield Problem(
        severity="error",
        summary=f"{label(gpu)} needs recovery: the driver asks for {wanted}",
        meaning="The driver has met an error that it cannot clear by itself; work on this GPU fails or may be wrong.",
        evidence=(reading,),
        fix=Fix(
            "End what uses this GPU, then reset it; when the reset is refused, reboot the machine."
            if reset_is_enough
            else f"Take the machine out of service; the driver asks for {wanted}.",
            commands=(reset(gpu),) if reset_is_enough else (command("nvidia-smi -q -i {:number}", gpu.index),),
        ),
    )
