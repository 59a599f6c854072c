"""A GPU on an NVSwitch board is not registered with the NVLink fabric.

Why it matters: until the fabric manager has registered every GPU, CUDA refuses to start on the whole machine with error
802 (system not yet initialized).
"""

from collections.abc import Iterator

from gpudoctor.check import Fix, Problem, gpu_check
from gpudoctor.knowledge.gpu_labels import label
from gpudoctor.knowledge.gpu_models import is_on_baseboard
from gpudoctor.snapshot import Gpu, Snapshot

# NVML_GPU_FABRIC_STATE_* of nvml.h.
NOT_SUPPORTED, COMPLETED = 0, 3
STATES = {1: "registration has not started", 2: "registration is in progress"}
# NVML_GPU_FABRIC_HEALTH_MASK_* of nvml.h: two-bit fields, 1 is true.
DEGRADED_BANDWIDTH_SHIFT, UNHEALTHY_ROUTE_SHIFT = 0, 4
LEAST_MASK = 4  # a driver that fills the mask sets several fields; 1 to 3 is nvml.h's one-number summary instead


@gpu_check("fabric-not-ready", title="GPUs are registered with the NVLink fabric")
def fabric_not_ready(gpu: Gpu, machine: Snapshot) -> Iterator[Problem]:
    fabric = gpu.fabric.value
    # A PCIe card, a single GPU, or a superchip (whose fabric is the rack's, with IMEX) needs no registration here:
    # asking for it there is the false alarm of NVSentinel #1471.
    if fabric.state == NOT_SUPPORTED or not is_on_baseboard(gpu.name.value) or len(machine.nvidia.gpus.value) < 2:
        return
    if fabric.state == COMPLETED and fabric.status == 0:
        health = fabric.health or 0
        if health >= LEAST_MASK:
            yield from _unhealthy(gpu, health)
        return
    seen = STATES.get(fabric.state, f"state {fabric.state}")
    if fabric.state == COMPLETED:
        seen = f"registration failed with NVML error {fabric.status}"
    yield Problem(
        severity="error",
        summary=f"{label(gpu)} is not part of the NVLink fabric: {seen}",
        meaning="CUDA fails to initialise with error 802 (system not yet initialized) on every GPU of this machine.",
        evidence=(gpu.fabric,),
        fix=Fix(
            "Start the fabric manager, which must be of exactly the driver's version; right after boot, wait a minute.",
            commands=(
                "sudo systemctl enable --now nvidia-fabricmanager",
                "journalctl -u nvidia-fabricmanager -n 50 --no-pager",
                f"nvidia-smi -q -i {gpu.index} | grep -A 4 Fabric",
            ),
        ),
    )


def _unhealthy(gpu: Gpu, health: int) -> Iterator[Problem]:
    faults = [
        fault
        for shift, fault in (
            (DEGRADED_BANDWIDTH_SHIFT, "degraded bandwidth"),
            (UNHEALTHY_ROUTE_SHIFT, "an unhealthy route"),
        )
        if health >> shift & 3 == 1
    ]
    if faults:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} reports {' and '.join(faults)} in the NVLink fabric (health mask {health:#x})",
            meaning="Collectives through this GPU are slow or fail.",
            evidence=(gpu.fabric,),
            fix=Fix(
                "Look at the GPU's links and at the fabric manager's log; a reset of the GPUs trains the links again.",
                commands=(
                    f"nvidia-smi nvlink -i {gpu.index} -s",
                    "journalctl -u nvidia-fabricmanager -n 50 --no-pager",
                ),
            ),
        )
