"""Speed of PCIe links."""

LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCIe generation -> bytes per second of one lane in one direction, after line coding (PCI-SIG base specification)."""


GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""GT/s as sysfs writes them (drivers/pci/pci.c: pci_speed_string) -> generation."""


def generation_of(speed: str) -> int | None:
    """Generation of sysfs' "16.0 GT/s PCIe"; None for what is no such speed."""
    return GENERATIONS.get(speed.partition(" ")[0])


def link_bytes_per_second(generation: int, width: int) -> float:
    """Raw speed of a link in one direction; a generation newer than the table counts as its newest."""
    newest = max(LANE_BYTES_PER_SECOND)
    return LANE_BYTES_PER_SECOND[min(max(generation, 1), newest)] * width
