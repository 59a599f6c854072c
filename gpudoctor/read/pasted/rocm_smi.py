"""`rocm-smi`, of any release since 3: which AMD GPUs it shows, and why it shows none.

Its short table has temperatures and load and no word of health: what it lists is never called well for that.
"""

import re

from gpudoctor.knowledge import pci_address
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import PciDevice, missing, read

SOURCE = "rocm-smi"
REFUSAL = "what rocm-smi says instead of its tables"
NO_DRIVER = lazy_re(
    r"(?:Unable to get devices, )?[Dd]river not initialized \(amdgpu not found in modules\)|ROCk module is NOT loaded"
)
NO_START = lazy_re(r"ROCm SMI returned -?\d{1,5} \(the expected value is 0\)")
"""What rocm-smi says in place of its tables (initializeRsmi of rocm_smi.py), amd-smi and rocminfo too."""
OF_A_GPU = lazy_re(r"GPU\[(?P<index>\d{1,3})\]\s*: ?(?P<fact>[^:\n]{1,60}):\s*(?P<value>\S.{0,100}?)\s*$", re.ASCII)
ROW = lazy_re(r"(?P<index>\d{1,3})\s+\S.*(?:%|N/A|Unsupported|unsupported)\s*$", re.ASCII)
"""A row of the short table, whose last columns are percentages."""
BUS = lazy_re(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", re.ASCII)
OF_HARDWARE = lazy_re(rf"(?P<index>\d{{1,3}})\s+\S.*\s(?P<bus>{BUS.pattern})(?:\s|$)", re.ASCII)
HEADING = lazy_re(
    r"=+ {0,6}ROCm System Management Interface {0,6}=+|=+ ?(?:Concise|End of ROCm SMI)\b.{0,40}=+"
    r"|(?:\w{1,9}: ?)?(?:root: ?)?(?:" + NO_DRIVER.pattern + "|" + NO_START.pattern + ")"
    r"|GPU\[\d{1,3}\]\s*: ?[A-Z]",
    re.ASCII,
)
REFUSED = lazy_re(r"ERROR: \d{1,5} GPU\[(?P<index>\d{1,3})\]\s*: ?(?P<why>\S.{0,120})", re.ASCII)
"""What it says of a GPU that gives a value it did not expect (rsmi_ret_ok)."""
NO_GPU = "No AMD GPUs specified"
"""What it shows where its driver serves none."""
NAMES = ("card series", "device name")
INSTINCT = lazy_re(r"Instinct|\bMI\d{2,3}", re.IGNORECASE)


def parse(block: Pasted) -> ToolOutput:
    names, buses, seen = dict[int, str](), dict[int, str](), set[int]()
    failed, refused = "", dict[int, str]()
    for line in block.lines:
        if (said := REFUSED.match(line)) is not None:
            refused.setdefault(int(said["index"]), said["why"].strip())
            continue
        if (said := NO_DRIVER.search(line) or NO_START.search(line)) is not None:
            failed = said[0]
        elif (fact := OF_A_GPU.match(line)) is not None:
            index, value = int(fact["index"]), fact["value"]
            seen.add(index)
            if fact["fact"].strip().casefold() in NAMES:
                names[index] = value
            elif fact["fact"].strip().casefold() == "pci bus" and BUS.fullmatch(value):
                buses[index] = value
        elif (row := OF_HARDWARE.match(line)) is not None:
            buses[int(row["index"])] = row["bus"]
            seen.add(int(row["index"]))
        elif (row := ROW.match(line)) is not None:
            seen.add(int(row["index"]))
    devices = tuple(served(buses[index], names.get(index, "")) for index in sorted(buses))
    modules = missing(REFUSAL, failed) if NO_START.match(failed) else read(REFUSAL, ())
    return ToolOutput(
        f"{SOURCE} ({counted(len(seen), 'AMD GPU')})" if seen else SOURCE,
        pci=devices or None,
        modules=modules if failed else None,
        lacks=(
            *(("it finds no AMD GPU",) if not seen and any(NO_GPU in line for line in block.lines) else ()),
            *(f"GPU {index} gives rocm-smi no data ({why})" for index, why in refused.items()),
        ),
        tells="" if failed else "names, temperatures or load" if seen else "nothing of a GPU",
    )


def served(bus: str, name: str, errors: int | None = None) -> PciDevice:
    """A GPU that AMD's tools show."""
    return PciDevice(
        bus_id=pci_address.in_sysfs(bus),
        vendor="0x1002",
        device="0x0000",
        device_class="0x120000" if INSTINCT.search(name) else "0x030000",
        driver="amdgpu",  # it shows what this driver serves
        model=name.removeprefix("AMD "),
        uncorrected_errors=errors,
    )
