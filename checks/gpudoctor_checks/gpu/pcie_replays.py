"""A GPU's PCIe link repeats many packets.

Why it matters: each replay is a packet that arrived broken. Many of them point to a bad riser, slot or signal, slow the
copies down, and often come before the GPU falls off the bus.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import label

REPLAYS_PER_MINUTE = 8  # DCGM_LIMIT_MAX_PCIREPLAY_RATE: "8 replays per minute is the maximum recommended"
FEW = 100  # our rule of thumb: links retrain while a machine boots, so a few replays minutes after boot say nothing


@gpu_check("pcie-replays", title="PCIe links repeat few packets", short="PCIe errors")
def pcie_replays(gpu: Gpu, machine: Snapshot) -> Problems:
    replays = gpu.pcie_replays.value
    if replays <= FEW:
        return
    uptime = machine.host.uptime_seconds
    # The counter starts with the driver and the uptime earlier, so the true rate is at least this.
    rate = replays / max(1.0, uptime.value / 60)
    if rate > REPLAYS_PER_MINUTE:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} counts {replays} PCIe replays, {rate:.0f} a minute since boot; "
            f"up to {REPLAYS_PER_MINUTE} a minute are normal",
            meaning="The link's signal is bad: copies are slow, and the GPU may fall off the bus.",
            evidence=(gpu.pcie_replays, uptime),
            fix=Fix(
                *by_hand(
                    machine,
                    "Reseat the card or its riser; when the count still grows, try another slot or replace the riser.",
                    command("nvidia-smi -q -i {:number} | grep -i replay", gpu.index),
                    command("sudo dmesg -T | grep -iE 'aer|pcieport'"),
                )
            ),
        )
