"""How addresses look within a text."""

import re

MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
HARDWARE_ADDRESS = re.compile(
    r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}"
    r"|[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3})(?![0-9A-Za-z:]|\.\d)"
)
"""Ethernet (6 bytes), IP over InfiniBand (20) and the GUID of an InfiniBand port (4 groups of 4)."""
IPV6 = re.compile(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?::\d+(?:\.\d+){3})?(?![0-9A-Za-z:]|\.\d)"
)
IPV4 = re.compile(r"(?<![0-9A-Za-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9A-Za-z]|\.\d|-[A-Za-z])")
FOUR_PARTS = re.compile(r"\d+(?:\.\d+){3}")
BEFORE_A_VERSION = re.compile(
    r"(?:version|driver|cudnn|nccl|cuda|torch|kernel|[-_]cu\d+|(?<!addr )[=<>~!]=|\bv)[\s:=/(\"'-]*$", re.IGNORECASE
)
