"""The table that `amd-smi` prints without arguments (ROCm 7.0 and later, amdsmi_logger.py): which AMD GPUs, and how
many errors each counts that could not be corrected.

Beside these it has names, temperatures and load and no other word of health: nothing that it lists is called well.
"""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.read.pasted.rocm_smi import served
from gpudoctor.snapshot import PciDevice

SOURCE = "amd-smi"
HEADING = lazy_re(r"\|\s*AMD-SMI \d[\w.+-]{0,40} ")
GOES_ON = lazy_re(r"\|=+\+=+\||\| Processes: ")
"""What stands in nvidia-smi's table too."""
ADDRESS = r"(?P<bus>[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
FIRST = lazy_re(
    rf"\|\s*{ADDRESS}\s+(?P<name>\S.*?)\s*\|\s*(?:\d+ ?%|N/A)\s+(?:-?\d+ ?\S?C|N/A)\s+(?P<errors>\d{{1,9}}|N/A)\s.*\|",
    re.ASCII,
)
"""| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |"""
SECOND = lazy_re(r"\|\s*\d{1,3}\s+(?:\d{1,3}|N/A)\s+(?:\d{1,3}|N/A)\s+[\w/]+\s*\|.*\|", re.ASCII)
"""| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |"""
PROCESSES = lazy_re(r"\|\s*Processes:")


def parse(block: Pasted) -> ToolOutput:
    devices, is_open = list[PciDevice](), False
    for line in block.lines:
        if first := FIRST.match(line):
            errors = int(first["errors"]) if first["errors"].isdigit() else None
            devices.append(served(first["bus"], first["name"], errors))
            is_open = True
        elif SECOND.match(line):
            is_open = False
    return ToolOutput(
        f"{SOURCE} ({counted(len(devices), 'AMD GPU')})" if devices else SOURCE,
        pci=tuple(devices) or None,
        lacks=tuple(_cut(block, devices, is_open=is_open)),
        tells="names, errors that could not be corrected, temperatures and load",
    )


def _cut(block: Pasted, devices: list[PciDevice], *, is_open: bool) -> Iterator[str]:
    if not devices:
        yield "amd-smi's table ends before its first GPU"
    elif is_open:
        yield f"amd-smi's table ends in the rows of {devices[-1].bus_id}"
    elif block.ends_the_text and not any(PROCESSES.match(line) for line in block.lines):
        yield f"amd-smi's table ends after {counted(len(devices), 'GPU')}"
