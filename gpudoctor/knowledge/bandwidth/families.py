"""What a GPU's name tells about its family, for the table of published bandwidths, and the NVLink that it has."""

import re

FAMILIES = (
    ("GB300", r"\bGB300\b"),
    ("GB200", r"\bGB200\b"),
    ("B300", r"\bB300\b"),
    ("B200", r"\bB200\b"),
    ("H200", r"\bH200\b(?! NVL)"),
    ("H100 NVL", r"\bH100 NVL\b"),
    ("H100", r"\bH100\b"),
    ("A100", r"\bA100\b"),
    ("V100", r"\bV100\b"),
    ("RTX 5090", r"\bRTX 5090\b"),
    ("MI300X", r"\bMI300X\b"),
)
"""Names as nvidia-smi and amd-smi print them; A800, H800 and H20 have other NVLinks and are in no table."""


def family(name: str) -> str:
    """ "H100" of "NVIDIA H100 80GB HBM3"; "" for what is in no table."""
    return next((word for word, pattern in FAMILIES if re.search(pattern, name)), "")


NVLINK_GENERATIONS = {(7, 0): 2, (8, 0): 3, (9, 0): 4, (10, 0): 5, (10, 3): 5}
"""Compute capability -> NVLink generation of the server GPUs."""


def nvlink_words(compute_capability: tuple[int, int] | None) -> str:
    """ "NVLink 4"; "NVLink" where the generation is not known."""
    generation = NVLINK_GENERATIONS.get(compute_capability) if compute_capability else None
    return f"NVLink {generation}" if generation else "NVLink"
