"""Cases of the checks in checks/gpudoctor_checks/gpu/, but for those of links."""

from gpudoctor.snapshot import (
    DeviceNode,
    EccCounts,
    KernelLog,
    RemappedRows,
    RetiredPages,
    StuckProcess,
    XidEvent,
)
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import (
    GIB,
    MIB,
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    rtx_4090,
    rtx_4090_node,
    t4,
    t4_node,
    unread,
)
from tests.gpu_machines import DENIED, LOST, UNPOWERED, every, in_container, in_vm, laptop, one, process

CASES = {
    "gpu-lost": [
        error(
            one(memory_used_bytes=LOST, temperature_celsius=LOST, power_draw_watts=LOST),
            "GPU 3 (0000:4b:00.0) is lost",
            "GpuIsLost",
        ),
        error(
            but(
                one(**dict.fromkeys(DENIED, LOST)),
                "host.kernel_log",
                KernelLog((XidEvent(79, "0000:4b:00", "GPU has fallen off the bus."),)),
            ),
            "GPU 3 is lost",
            "Xid 79",
        ),
        silent(one(temperature_celsius=UNSUPPORTED, power_draw_watts=unread())),
        skipped(one(**DENIED)),
    ],
    "gpu-unreadable": [
        error(one(**UNPOWERED), "GPU 3 cannot be opened", "InsufficientPower"),
        warning(one(**DENIED), runs="ls -l /dev/nvidia*"),
        info(in_container(one(**DENIED))),
        # a job of another scheduler than Slurm: the device cgroup keeps the GPU from it
        info(
            but(
                one(**DENIED),
                "accelerators.device_nodes",
                (DeviceNode("/dev/nvidia3", False, False, 0o666, "root", "root"),),
            )
        ),
        silent(one(**{**DENIED, "uuid": "GPU-1"})),
        skipped(one(**dict.fromkeys(DENIED, LOST))),
    ],
    "gpu-recovery-action-needed": [
        error(one(recovery_action=1), "GPU 3 (0000:4b:00.0)", "a GPU reset", runs="sudo nvidia-smi --gpu-reset -i 3"),
        error(one(recovery_action=2), "reboot"),
        error(one(recovery_action=99), "recovery action 99"),
        silent(every(h100_node(), recovery_action=0)),
        skipped(one(recovery_action=LOST)),
    ],
    "ecc-uncorrected-errors": [
        error(one(ecc_volatile=EccCounts(12, 2)), "GPU 3", "2 uncorrected", runs="sudo nvidia-smi --gpu-reset -i 3"),
        silent(one(ecc_volatile=EccCounts(5000, 0), ecc_aggregate=EccCounts(9000, 4))),
        skipped(one(ecc_volatile=unread())),
    ],
    "sram-errors-over-threshold": [
        warning(one(sram_threshold_exceeded=True), "GPU 3"),
        silent(one(sram_threshold_exceeded=False, ecc_volatile=EccCounts(9, 9))),
        skipped(one(sram_threshold_exceeded=unread())),
    ],
    "row-remap-failed": [
        error(one(remapped_rows=RemappedRows(0, 9, False, True)), "GPU 3", "9 rows"),
        # An RTX 4090 answers with zeros although it remaps nothing.
        silent(but_gpu(rtx_4090_node(), 0, remapped_rows=RemappedRows(0, 0, False, False))),
        skipped(one(remapped_rows=LOST)),
    ],
    "row-remap-pending": [
        error(
            one(remapped_rows=RemappedRows(1, 2, True, False)),
            "1 correctable, 2 uncorrectable",
            runs="sudo nvidia-smi --gpu-reset -i 3",
        ),
        silent(one(remapped_rows=RemappedRows(1, 2, False, False))),
        skipped(one(remapped_rows=unread())),
    ],
    "retired-pages-pending": [
        error(
            but_gpu(t4_node(), 1, retired_pages=RetiredPages(1, 2, True)),
            "GPU 1",
            "3 retired",
            runs="sudo nvidia-smi --gpu-reset -i 1",
        ),
        silent(but_gpu(t4_node(), 1, retired_pages=RetiredPages(1, 2, False))),
        skipped(but_gpu(t4_node(), 1, retired_pages=unread())),
    ],
    "retired-pages-many": [
        error(but_gpu(t4_node(), 1, retired_pages=RetiredPages(50, 13, False)), "63 memory pages", "13 of them"),
        warning(but_gpu(t4_node(), 1, retired_pages=RetiredPages(0, 16, False))),
        silent(but_gpu(t4_node(), 1, retired_pages=RetiredPages(47, 15, False))),
        skipped(but_gpu(t4_node(), 1, retired_pages=unread())),
    ],
    "inforom-corrupted": [
        warning(one(inforom_valid=False), "GPU 3"),
        silent(one(inforom_valid=UNSUPPORTED)),
        skipped(one(inforom_valid=unread())),
    ],
    "vgpu-unlicensed": [
        error(
            one(name="NVIDIA L4-24Q", vgpu_licence="Unlicensed (Restricted)"),
            "GPU 3",
            "restricted",
            runs="sudo systemctl restart nvidia-gridd",
        ),
        error(one(vgpu_licence="Unlicensed (Restricted)"), "GPU 3"),
        warning(one(name="GRID T4-16C", vgpu_licence="Unlicensed")),
        warning(one(name="NVIDIA A40-48Q", vgpu_licence="Unlicensed (Unrestricted)")),
        # A whole GPU, whose driver knows of licences.
        silent(one(vgpu_licence="Unlicensed"), one(name="NVIDIA L4-24Q", vgpu_licence="Licensed (Expiry: N/A)")),
        skipped(one(name="NVIDIA L4-24Q", vgpu_licence=unread())),
    ],
    "clocks-held-down": [
        warning(
            one(clock_event_reasons=0x48, temperature_celsius=89),
            "GPU 3",
            "hardware slowdown and hardware thermal slowdown",
            "89 °C",
            "345 MHz of 1980 MHz",
        ),
        warning(one(clock_event_reasons=0x84), "power brake"),
        info(laptop(clock_event_reasons=0x88)),
        # Idle, power cap and application clocks together: azurehpc-health-checks took such sums for throttling.
        silent(every(h100_node(), clock_event_reasons=0x1 | 0x2 | 0x4 | 0x10 | 0x100), laptop()),
        skipped(one(clock_event_reasons=unread())),
    ],
    "gpu-too-hot": [
        warning(one(temperature_celsius=84), "GPU 3", "84 °C", "87 °C"),
        silent(one(temperature_celsius=83)),
        skipped(one(temperature_celsius=unread())),
    ],
    "memory-too-hot": [
        warning(one(memory_temperature_celsius=96), "96 °C", "95 °C"),
        silent(one(memory_temperature_celsius=94)),
        skipped(one(memory_temperature_max_celsius=unread())),
    ],
    "ecc-mode-pending": [
        warning(one(ecc_mode_pending=False), "GPU 3", "ECC on", "ECC off is pending", runs="sudo nvidia-smi -i 3 -e 1"),
        silent(one(ecc_mode=False, ecc_mode_pending=False)),
        skipped(one(ecc_mode=unread())),
    ],
    "ecc-mode-differs": [
        warning(one(ecc_mode=False), "GPUs 0-2,4-7", "off for GPU 3", runs="sudo nvidia-smi -i 3 -e 1"),
        silent(node((gpu(0), gpu(1), rtx_4090(2)))),
        skipped(one(ecc_mode=unread())),
    ],
    "power-limit-lowered": [
        warning(
            but_gpu(one(power_limit_watts=400.0), 4, power_limit_watts=400.0),
            "GPUs 3-4",
            "400 W",
            "700 W",
            runs="sudo nvidia-smi -i 3,4 -pl 700",
        ),
        silent(laptop()),
        skipped(one(power_limit_watts=unread())),
    ],
    "gpu-busy": [
        warning(
            one(utilization_gpu_percent=97, processes=(process(4711, 30 * GIB),)),
            "GPU 3",
            "97 %",
            "4711",
            runs="ps -fp 4711",
        ),
        info(laptop(utilization_gpu_percent=34)),
        silent(one(utilization_gpu_percent=60, processes=(process(77, 500 * MIB, own=True),))),
        skipped(one(utilization_gpu_percent=unread())),
    ],
    "gpu-memory-held": [
        warning(
            one(memory_used_bytes=40 * GIB, processes=(process(4711, 40 * GIB),)),
            "GPU 3",
            "40.0 of 79.6 GiB",
            "pid 4711 user ann python train.py 40.0 GiB",
            runs="ps -o pid,user,lstart,args -p 4711",
        ),
        warning(one(memory_used_bytes=70 * GIB, processes=()), "70.0 of 79.6 GiB", runs="sudo fuser -v /dev/nvidia3"),
        warning(
            in_container(one(memory_used_bytes=9 * GIB, processes=(process(4711, 9 * GIB, hidden=True),))),
            "pid 4711 9.0 GiB",
        ),
        warning(
            one(memory_used_bytes=70 * GIB, processes=(process(1, 9 * GIB), process(2, GIB))),
            "60.0 GiB by no process that is visible",
        ),
        warning(but(one(memory_used_bytes=70 * GIB), "host.stuck_processes", (StuckProcess(812, "python", "Z"),))),
        warning(one(memory_used_bytes=70 * GIB, processes=unread())),
        silent(one(memory_used_bytes=3 * GIB, processes=(process(77, 3 * GIB, own=True),))),
        # a monitoring agent
        silent(one(memory_used_bytes=600 * MIB, processes=(process(900, 15 * MIB),))),
        skipped(one(memory_used_bytes=unread())),
    ],
    "compute-mode-restrictive": [
        error(
            every(h100_node(), compute_mode="prohibited"),
            "GPUs 0-7",
            "prohibited",
            runs="sudo nvidia-smi -i 0,1,2,3,4,5,6,7 -c DEFAULT",
        ),
        warning(one(compute_mode="exclusive-process"), "GPU 3", "exclusive-process"),
        silent(one(compute_mode=UNSUPPORTED)),
        skipped(one(compute_mode=unread())),
    ],
    "persistence-mode-off": [
        warning(
            every(h100_node(), persistence_mode=False), "GPUs 0-7", runs="sudo nvidia-smi -i 0,1,2,3,4,5,6,7 -pm 1"
        ),
        info(in_vm(every(t4_node(), persistence_mode=False))),
        silent(laptop(persistence_mode=False)),
        skipped(one(persistence_mode=unread())),
    ],
    "gpu-models-differ": [
        info(
            node((gpu(0), gpu(1), t4(2))),
            "NVIDIA H100 80GB HBM3 (GPUs 0-1)",
            "Tesla T4 (GPU 2)",
            runs="export CUDA_VISIBLE_DEVICES=0,1",
        ),
        silent(node((gpu(0), gpu(1, vbios_version="96.00.5E.00.01")))),
        skipped(one(name=unread())),
    ],
    "vbios-versions-differ": [
        info(one(vbios_version="96.00.5E.00.01"), "96.00.5E.00.01 on GPU 3"),
        silent(but_gpu(rtx_4090_node(), 1, vbios_version="95.02.3C.80.91")),
        skipped(one(vbios_version=unread())),
    ],
    "gpu-memory-differs": [
        warning(one(memory_total_bytes=76000 * MIB), "GPU 3", "74.2 GiB", "79.6 GiB"),
        silent(one(memory_total_bytes=81500 * MIB)),
        skipped(one(memory_total_bytes=unread())),
    ],
    "display-active-on-training-gpu": [
        info(
            but_gpu(rtx_4090_node(), 0, display_active=True),
            "GPU 0",
            "GPUs 1-3 do not",
            runs="export CUDA_VISIBLE_DEVICES=1,2,3",
        ),
        silent(laptop()),
        skipped(one(display_active=unread())),
    ],
}
