"""PCI ids by which accelerators of other makers than NVIDIA are told from plain graphics.

Ids are as sysfs writes them: lower-case hex with "0x".
"""

from gpudoctor.snapshot import PciDevice

AMD, INTEL, GOOGLE, NVIDIA = "0x1002", "0x8086", "0x1ae0", "0x10de"

# jax/_src/hardware_utils.py and torch_xla/_internal/tpu.py. Google's vendor id alone says nothing: its virtual
# network card (0x0042) and disks carry it too, on every Google Cloud VM.
TPU_GENERATIONS = {
    "0x0027": "TPU v2/v3",
    "0x0056": "TPU",
    "0x005e": "TPU v4",
    "0x0062": "TPU v5p",
    "0x0063": "TPU v5e",
    "0x006f": "TPU v6e",
    "0x0076": "TPU v7x",
    "0x007c": "TPU 8t",
    "0x0083": "TPU 8i",
}

# Linux include/drm/intel/pciids.h: INTEL_PVC_IDS (Data Center GPU Max) and INTEL_ATS_M_IDS (Data Center GPU Flex).
INTEL_DATA_CENTER = frozenset(
    f"0x{number:04x}"
    for number in (0x0B69, 0x0B6E, *range(0x0BD0, 0x0BDC), 0x0BE0, 0x0BE1, 0x0BE5, 0x56C0, 0x56C1, 0x56C2)
)
# The same file: INTEL_DG2_IDS (Arc A) and INTEL_BMG_IDS (Arc B). Everything else of Intel is integrated graphics.
INTEL_ARC = frozenset(
    f"0x{number:04x}"
    for number in (
        *range(0x5690, 0x5698),
        *range(0x56A0, 0x56A7),
        *range(0x56B0, 0x56B4),
        *range(0x56BA, 0x56C0),
        *(0xE202, 0xE209, 0xE20B, 0xE20C, 0xE20D, 0xE210, 0xE211, 0xE212, 0xE215, 0xE216),
        *(0xE220, 0xE221, 0xE222, 0xE223),
    )
)


def is_display(device: PciDevice) -> bool:
    """PCI base class 03: VGA, 3D or other display controller."""
    return device.device_class.startswith("0x03")


def is_processing_accelerator(device: PciDevice) -> bool:
    """PCI base class 12, under which AMD's Instinct, TPUs and Gaudi come (and NPUs of laptops)."""
    return device.device_class.startswith("0x12")


def is_amd_instinct(device: PciDevice) -> bool:
    """An AMD data-centre accelerator: class 12, which no Radeon or integrated GPU has."""
    return device.vendor == AMD and is_processing_accelerator(device)


def is_amd_graphics(device: PciDevice) -> bool:
    """A Radeon card or the graphics inside an AMD CPU: PCI ids do not tell which of them ROCm supports."""
    return device.vendor == AMD and is_display(device)


def is_intel_data_center(device: PciDevice) -> bool:
    return device.vendor == INTEL and device.device in INTEL_DATA_CENTER


def is_intel_arc(device: PciDevice) -> bool:
    return device.vendor == INTEL and device.device in INTEL_ARC


def is_nvidia_gpu(device: PciDevice) -> bool:
    return device.vendor == NVIDIA and is_display(device)


def is_tpu(device: PciDevice) -> bool:
    return device.vendor == GOOGLE and device.device in TPU_GENERATIONS
