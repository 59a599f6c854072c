"""Speed of PCIe links."""

LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCIe generation -> bytes per second of one lane in one direction, after line coding (PCI-SIG base specification)."""


def link_bytes_per_second(generation: int, width: int) -> float:
    """Raw speed of a link in one direction; a generation newer than the table counts as its newest."""
    newest = max(LANE_BYTES_PER_SECOND)
    return LANE_BYTES_PER_SECOND[min(max(generation, 1), newest)] * width
