"""By which factor a large matrix product should be faster than in fp32: of the vendor's published peak rates.

Dense rates, with fp32 accumulation, as torch's products have it; half of what is published "with sparsity". What a
program reaches lies below, in fp32 too: a measured factor under half of the expected one is worth a look (our rule of
thumb, `SUSPICIOUS`).
"""

import re
from typing import NamedTuple

from gpudoctor.knowledge.gpus.gpu_models import is_consumer
from gpudoctor.knowledge.precision.support import Dtype, has_tensor_cores
from gpudoctor.knowledge.pytorch.gpu_code import Capability

SUSPICIOUS = 0.5


class Peak(NamedTuple):
    """Peak rates in TFLOP/s; None where the generation has no tensor cores for it."""

    capability: Capability
    names: str
    """A regular expression of product names; "" for all of the capability that no earlier entry takes."""
    fp32: float
    tf32: float | None
    half: float
    """fp16, and bf16 from compute capability 8.0 on."""
    fp8: float | None
    source: str


PEAKS = (
    Peak((7, 0), "", 15.7, None, 125, None, "NVIDIA V100 datasheet, SXM2"),
    Peak((7, 5), r"GeForce RTX 20", 13.4, None, 53.8, None, "NVIDIA Turing whitepaper, GeForce RTX 2080 Ti"),
    Peak((7, 5), "", 8.1, None, 65, None, "NVIDIA T4 datasheet; Quadro RTX 6000: 16.3 and 130.5"),
    Peak((8, 0), "", 19.5, 156, 312, None, "NVIDIA A100 datasheet; A30: 10.3, 82, 165"),
    Peak((8, 6), r"GeForce", 35.6, 35.6, 71, None, "NVIDIA GA102 whitepaper, GeForce RTX 3090"),
    Peak((8, 6), r"\b(A10|A16|A2|A40|RTX A[456]\d00)\b", 37.4, 74.8, 149.7, None, "NVIDIA A40 datasheet"),
    Peak((8, 9), r"GeForce", 82.6, 82.6, 165.2, 330.3, "NVIDIA Ada whitepaper, GeForce RTX 4090"),
    Peak((8, 9), r"\b(L40|L20)\b", 90.5, 90.5, 181, 362, "NVIDIA L40 datasheet"),
    Peak((8, 9), r"\b(L4|L40S|RTX 6000)\b", 91.6, 183, 362, 733, "NVIDIA L40S datasheet; L4: 30.3, 60, 121, 242"),
    Peak((9, 0), r"\bH20\b", 44, 74, 148, 296, "NVIDIA H20 specification"),
    Peak((9, 0), "", 67, 494.5, 989.5, 1979, "NVIDIA H100 datasheet, SXM; PCIe: 51, 378, 756, 1513"),
    Peak((10, 0), "", 75, 1125, 2250, 4500, "NVIDIA HGX B200 specification, an eighth of the eight GPUs'"),
    Peak((12, 0), r"GeForce", 104.8, 104.8, 209.5, 419, "NVIDIA RTX Blackwell whitepaper, GeForce RTX 5090"),
    Peak((12, 0), r"RTX PRO 6000", 126, 251.9, 503.8, 1007.6, "NVIDIA RTX PRO 6000 Blackwell whitepaper"),
)


def peak(name: str, capability: Capability | None) -> Peak | None:
    """The entry for an NVIDIA GPU; None where nothing is known of the product."""
    if capability is None:
        return None
    for entry in PEAKS:
        if entry.capability == capability and (not entry.names or re.search(entry.names, name)):
            # A GeForce is slower with fp32 accumulation than its chip's other products.
            return None if is_consumer(name) and "GeForce" not in entry.names and "TITAN" not in name else entry
    return None


def expected_factor(dtype: Dtype, name: str, capability: Capability | None) -> float | None:
    """How many times faster than fp32 a large product should be; None where nothing is published."""
    entry = peak(name, capability)
    if entry is None or not has_tensor_cores(dtype, name, capability):
        return None
    rate = {"fp16": entry.half, "bf16": entry.half, "tf32": entry.tf32, "fp8": entry.fp8}[dtype]
    return round(rate / entry.fp32, 1) if rate else None


def source_of_factor(name: str, capability: Capability | None) -> str:
    entry = peak(name, capability)
    return entry.source if entry else ""
