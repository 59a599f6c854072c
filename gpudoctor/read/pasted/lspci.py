"""`lspci`, also with -nn, -k and -v: the accelerators on the bus, also those that a driver does not serve.

A device whose configuration space reads all ones shows as "(rev ff)": it does not answer, or is switched off.
"""

import re

from gpudoctor.knowledge import pci_address
from gpudoctor.knowledge.gpus.nvidia_hardware import PASSED_ON
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.read.pci import is_of_interest, link_width
from gpudoctor.snapshot import DRIVER_NOT_TOLD, PciDevice

SOURCE = "lspci"
HEADING = lazy_re(
    r"(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) (?P<kind>[A-Z0-9][\w /().-]{1,60}?)"
    r"(?: \[(?P<class>[0-9a-f]{4})\])?: (?P<rest>\S.*)",
    re.ASCII,
)
CLASSES = {
    "VGA compatible controller": "0x030000",
    "3D controller": "0x030200",
    "Display controller": "0x038000",
    "Processing accelerators": "0x120000",
    "Bridge": "0x068000",
}
"""The names of pci.ids -> the class, where -nn does not tell it."""
VENDORS = (
    ("NVIDIA Corporation", "0x10de"),
    ("Advanced Micro Devices", "0x1002"),
    ("Intel Corporation", "0x8086"),
    ("Habana Labs", "0x1da3"),
)
IDS = lazy_re(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]", re.ASCII)
MODEL = lazy_re(r"\[(?P<model>[^][]{2,60})\]")
DRIVER = lazy_re(r"Kernel driver in use: (?P<driver>[\w-]{1,60})$", re.ASCII)
LINK = lazy_re(r"(?P<what>LnkCap|LnkSta):.*?Speed (?P<speed>[\d.]{1,5})GT/s.*?Width x(?P<width>\d{1,2})\b", re.ASCII)


def parse(block: Pasted) -> ToolOutput:
    tells_drivers = any("Kernel driver in use:" in line for line in block.lines)
    by_address: dict[str, PciDevice] = {}
    current = ""
    facts: dict[str, dict[str, object]] = {}
    for line in block.lines:
        if (heading := HEADING.match(line)) is not None:
            device = _device(heading, "" if tells_drivers else DRIVER_NOT_TOLD)
            current = device.bus_id if device is not None else ""
            if device is not None:
                by_address[current], facts[current] = device, {}
        elif current and (driver := DRIVER.match(line)) is not None:
            facts[current]["driver"] = driver["driver"]
        elif current and (link := LINK.match(line)) is not None:
            end = "_max" if link["what"] == "LnkCap" else ""
            facts[current][f"link_width{end}"] = link_width(link["width"])
            facts[current][f"link_speed{end}"] = f"{_speed(link['speed'])} GT/s PCIe"
    devices = tuple(_with(device, facts[bus_id]) for bus_id, device in by_address.items())
    # A list without accelerators was filtered for something else, more often than it is of a machine without.
    given = [device.driver for device in devices if device.driver in PASSED_ON]
    lacks = (f"{given[0]} holds {counted(len(given), 'GPU')}, for a virtual machine to use",) if given else ()
    return ToolOutput(SOURCE, pci=devices or None, lacks=lacks, tells="what is on the PCI bus")


def _with(device: PciDevice, facts: dict[str, object]) -> PciDevice:
    fields = {name: getattr(device, name) for name in device.__struct_fields__}
    return PciDevice(**{**fields, **facts})


def _speed(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,3}(?:\.\d)?", text, re.ASCII) else 0.0


def _device(heading: re.Match[str], driver: str) -> PciDevice | None:
    """None for what is no accelerator."""
    rest, ids = heading["rest"], IDS.search(heading["rest"])
    device_class = f"0x{heading['class']}00" if heading["class"] else CLASSES.get(heading["kind"], "")
    named = next((vendor for name, vendor in VENDORS if rest.startswith(name)), "")
    vendor = f"0x{ids['vendor']}" if ids else named
    device = f"0x{ids['device']}" if ids else "0x0000"
    if not device_class or not vendor or not is_of_interest(vendor, device, device_class):
        return None
    models = [text for text in MODEL.findall(rest) if not IDS.fullmatch(f"[{text}]") and text != "AMD/ATI"]
    return PciDevice(
        bus_id=pci_address.in_sysfs(heading["bus"]),
        vendor=vendor,
        device=device,
        device_class=device_class,
        driver=driver,
        model=models[0] if models else "",
        is_silent="(rev ff)" in rest,
    )
