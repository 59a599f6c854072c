"""What a GPU's marketing name tells about the product. NVML has no call for it, and rules need only this much.

Names as nvidia-smi prints them: "NVIDIA H100 80GB HBM3" is the SXM board, "NVIDIA H100 PCIe" and "NVIDIA H100 NVL"
are cards; "NVIDIA A100-SXM4-80GB" says so itself.
"""

import re

from gpudoctor.lazy import lazy_re

_CONSUMER = lazy_re(r"GeForce|TITAN", re.IGNORECASE)
_WORKSTATION = lazy_re(r"Quadro|\bRTX\b", re.IGNORECASE)
_LAPTOP = lazy_re(r"Laptop|Mobile|Max-Q|\b\d{3,4}M\b|\bMX\d{3}\b", re.IGNORECASE)
_DATACENTER = lazy_re(
    r"\b(Tesla|A2|A10[GM]?|A16|A30X?|A40|A100X?|A800|B[123]00|H20|H[128]00|L2|L4|L20|L40[SG]?|T4G?|V100S?|P100|G[BH][23]00)\b",
)
_SUPERCHIP = lazy_re(r"\b(G[BH][23]00|GB10)\b")
_BASEBOARD = lazy_re(r"SXM|HGX|\b(H20|H[128]00|B[123]00)\b")
_CARD = lazy_re(r"PCIe|\bNVL\b", re.IGNORECASE)


def is_consumer(name: str) -> bool:
    """A GeForce or TITAN: NVIDIA leaves out peer-to-peer, MIG and most error counters there."""
    return _CONSUMER.search(name) is not None


def is_laptop(name: str) -> bool:
    """Soldered into a notebook: firmware moves its power limit, clocks and link width about as it likes."""
    return _LAPTOP.search(name) is not None


def is_datacenter(name: str) -> bool:
    """Sold for servers. Quadro and RTX workstation cards are not."""
    return _DATACENTER.search(name) is not None and not (is_consumer(name) or _WORKSTATION.search(name))


def is_superchip(name: str) -> bool:
    """A Grace Hopper or Grace Blackwell module: NVLink-C2C joins CPU and GPU, NVSwitches, if any, are elsewhere."""
    return _SUPERCHIP.search(name) is not None


def is_on_baseboard(name: str) -> bool:
    """An SXM module, whose NVLinks are wired on the board. A PCIe card's need a bridge that may well not be there."""
    return _BASEBOARD.search(name) is not None and not _CARD.search(name)


def is_ada_consumer(name: str) -> bool:
    """GeForce RTX 40, whose older drivers promised a peer-to-peer access that they could not give."""
    return re.search(r"\bRTX 40[5-9]0\b", name) is not None


_CAPABILITIES = (
    (lazy_re(r"\bRTX 50[5-9]0|\bRTX PRO \d{4}\b", re.IGNORECASE), (12, 0)),
    (lazy_re(r"\bGB10\b"), (12, 1)),
    (lazy_re(r"\bG?B300\b"), (10, 3)),
    (lazy_re(r"\b(?:B100|G?B200)\b"), (10, 0)),
    (lazy_re(r"\b(?:H[128]00|H20|GH200)\b"), (9, 0)),
    (lazy_re(r"\b(?:RTX 40[5-9]0|L4|L20|L40[SG]?|RTX \d{4} Ada)\b"), (8, 9)),
    (lazy_re(r"\b(?:RTX 30[5-9]0|A2|A10G?|A16|A40|RTX A\d{4})\b"), (8, 6)),
    (lazy_re(r"\b(?:A100|A800|A30)\b"), (8, 0)),
    (lazy_re(r"\b(?:T4|RTX 20[5-8]0|GTX 16[356]0|Quadro RTX \d{4}|TITAN RTX)\b"), (7, 5)),
    (lazy_re(r"\b(?:V100S?|TITAN V)\b"), (7, 0)),
    (lazy_re(r"\b(?:GTX 10[3-8]0|P4|P40|TITAN Xp)\b"), (6, 1)),
    (lazy_re(r"\bP100\b"), (6, 0)),
)
"""Source: NVIDIA's table of CUDA GPUs (developer.nvidia.com/cuda-gpus)."""


def capability_of(name: str) -> tuple[int, int] | None:
    """The compute capability of this model; None of one that is not in the table."""
    return next((capability for pattern, capability in _CAPABILITIES if pattern.search(name)), None)
