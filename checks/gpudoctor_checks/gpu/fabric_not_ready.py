"""GPUs on an NVSwitch board are not registered with the NVLink fabric.

Why it matters: until the fabric manager has registered every GPU, CUDA refuses to start on the whole machine with error
802 (system not yet initialized).
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import FABRIC_DOWN
from gpudoctor.knowledge.gpus.gpu_labels import label, labels
from gpudoctor.knowledge.gpus.gpu_models import is_on_baseboard
from gpudoctor.knowledge.gpus.like_gpus import known, raise_unread

# NVML_GPU_FABRIC_STATE_* of nvml.h.
NOT_SUPPORTED, COMPLETED = 0, 3
STATES = {1: "registration has not started", 2: "registration is in progress"}
# NVML_GPU_FABRIC_HEALTH_MASK_* of nvml.h: two-bit fields, 1 is true.
DEGRADED_BANDWIDTH_SHIFT, UNHEALTHY_ROUTE_SHIFT = 0, 4


@check(
    "fabric-not-ready",
    title="GPUs are registered with the NVLink fabric",
    short="fabric not ready",
    follows=FABRIC_DOWN,
)
def fabric_not_ready(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    outside: dict[str, list[Gpu]] = {}
    for gpu, fabric in known(gpus, lambda gpu: gpu.fabric):
        if fabric.state == COMPLETED and fabric.status == 0:  # whatever the board: a GB200 that is in says how it is
            if fabric.health is not None or fabric.is_unhealthy:
                yield from _unhealthy(gpu, fabric.health or 0, bool(fabric.is_unhealthy))
            continue
        # A PCIe card, a single GPU, or a superchip (whose fabric is the rack's, with IMEX) needs no registration here:
        # asking for it there is the false alarm of NVSentinel #1471.
        if fabric.state == NOT_SUPPORTED or len(gpus) < 2 or not is_on_baseboard(gpu.name.value):
            continue
        if fabric.state != COMPLETED:
            outside.setdefault(STATES.get(fabric.state, f"state {fabric.state}"), []).append(gpu)
        else:
            outside.setdefault(f"registration failed with NVML error {fabric.status}", []).append(gpu)
    for seen, same in outside.items():
        yield Problem(
            severity="error",
            summary=f"Not part of the NVLink fabric: {labels(same)}, {seen}",
            meaning="CUDA fails to initialise with error 802 (system not yet initialized) on every GPU of this "
            "machine.",
            evidence=tuple(gpu.fabric for gpu in same),
            gpus=tuple(gpu.index for gpu in same),
            fix=Fix.of(
                "Start the fabric manager, which must be of exactly the driver's version; right after boot, wait a "
                "minute.",
                command("sudo systemctl enable --now nvidia-fabricmanager"),
                command("sudo journalctl -u nvidia-fabricmanager -n 50 --no-pager"),
                command("nvidia-smi -q -i {:number} | grep -A 4 Fabric", same[0].index),
            ),
        )
    raise_unread(gpu.fabric for gpu in gpus)


def _unhealthy(gpu: Gpu, health: int, is_unhealthy: bool) -> Problems:
    fields = ((DEGRADED_BANDWIDTH_SHIFT, "degraded bandwidth"), (UNHEALTHY_ROUTE_SHIFT, "an unhealthy route"))
    faults = [fault for shift, fault in fields if health >> shift & 3 == 1]
    if faults or is_unhealthy:
        said = " and ".join(faults) or "that it is unhealthy"
        yield Problem(
            severity="error" if is_unhealthy else "warning",
            summary=f"{label(gpu)} reports {said} in the NVLink fabric (health mask {health:#x})",
            meaning="Collectives through this GPU are slow or fail.",
            evidence=(gpu.fabric,),
            gpus=(gpu.index,),
            fix=Fix.of(
                "Look at the GPU's links and at the fabric manager's log; a reset of the GPUs trains the links again.",
                command("nvidia-smi nvlink -i {:number} -s", gpu.index),
                command("sudo journalctl -u nvidia-fabricmanager -n 50 --no-pager"),
            ),
        )
