"""Copies between host and GPU are much slower than the PCIe link allows.

Why it matters: batches, checkpoints and CPU-offloaded states travel this way. Slow copies at a healthy link point to
memory of the wrong NUMA node, one memory channel, a translating IOMMU, or a virtual machine's settings.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.pcie import link_bytes_per_second
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, named
from gpudoctor.snapshot import SmokeResult, absent, missing

GB = 1e9
WANTED_FRACTION = 0.6
"""Of the link's raw speed. A healthy link gives 0.75 to 0.85: Azure's node check wants 48 of H100's 63 GB/s (AzNHC,
`check_gpu_bw 48`). The rest of the way down to 0.6 is left to slow hosts, which are nobody's fault."""


@check(
    "host-copy-slow",
    title="Copies between host and GPU run at the link's speed",
    short="slow copies",
    follows=("pcie-link-narrow", "pcie-link-slow-under-load", "pcie-link-uneven"),
)
def host_copy_slow(machine: Snapshot) -> Problems:
    smoke = machine.active.smoke
    if all(target.device == "cpu" for target in smoke.value):
        _ = absent("CUDA smoke test", "it ran on the CPU").value
    unmeasured = None
    for target in smoke.value:
        result = target.result.value_or(None)
        if result is None or result.outcome == "failed":
            unmeasured = target.device
            continue
        gpu = gpu_tested(machine, target)
        link = link_of(result, gpu)
        speeds = {
            "host to device": result.host_to_device_bytes_per_second,
            "device to host": result.device_to_host_bytes_per_second,
        }
        measured = {way: speed for way, speed in speeds.items() if speed is not None}
        if link is None or not measured:
            unmeasured = target.device
            continue
        way, slowest = min(measured.items(), key=lambda pair: pair[1])
        possible = link_bytes_per_second(*link)
        if slowest >= WANTED_FRACTION * possible:
            continue
        busy = gpu is not None and bool(gpu.processes.value_or(()))
        yield Problem(
            severity="info" if busy else "warning",
            summary=f"{named(target, gpu)} copies {way} at {slowest / GB:.1f} GB/s; "
            f"PCIe {link[0]} x{link[1]} allows {possible / GB:.1f}, {WANTED_FRACTION * possible / GB:.1f} are wanted",
            meaning="Loading batches, checkpoints and offloading take longer on this GPU."
            + (" Other processes use the GPU, and may be the reason." if busy else ""),
            evidence=(target.result, smoke),
            fix=Fix(
                "Compare with the other GPUs; look at NUMA affinity, the memory's channels and the IOMMU's mode.",
                commands=(command("nvidia-smi topo -m"), command("lscpu | grep NUMA"), command("cat /proc/cmdline")),
            ),
            gpus=(gpu.index,) if gpu else (),
        )
    if unmeasured:
        _ = missing(f"CUDA smoke test {unmeasured}", "speed of its copies or its PCIe link was not measured").value


def link_of(result: SmokeResult, gpu: Gpu | None) -> tuple[int, int] | None:
    """(generation, width) under load, else the most that GPU and slot support."""
    if result.pcie_generation_loaded and result.pcie_width_loaded:
        return result.pcie_generation_loaded, result.pcie_width_loaded
    if gpu is not None and gpu.pcie_generation_max.is_read and gpu.pcie_width_max.is_read:
        return gpu.pcie_generation_max.value, gpu.pcie_width_max.value
    return None
