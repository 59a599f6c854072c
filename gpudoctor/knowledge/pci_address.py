"""PCI addresses: NVML, CUDA, sysfs and the kernel log each write them in their own way."""

import re
from functools import lru_cache

from gpudoctor.lazy import lazy_re

_ADDRESS = lazy_re(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?",
    re.ASCII | re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def normalised(address: str) -> str:
    """NVML's form in lower case with an 8-digit domain: "00000000:5d:00.0" for "0000:5D:00.0" and "5d:00".

    Raises `ValueError` for what is no PCI address.
    """
    match = _ADDRESS.fullmatch(address.strip())
    if match is None:
        raise ValueError(f"not a PCI address: {address[:40]!r}")
    domain, bus, device, function = (
        int(part or "0", 16) for part in match.group("domain", "bus", "device", "function")
    )
    return f"{domain:08x}:{bus:02x}:{device:02x}.{function}"


@lru_cache(maxsize=4096)  # grading many nodes asks for the same few again and again
def in_sysfs(address: str) -> str:
    """The name of its folder in /sys/bus/pci/devices: "0000:5d:00.0". Raises `ValueError`."""
    domain, _, rest = normalised(address).partition(":")
    return f"{int(domain, 16):04x}:{rest}"
