"""Whether code compiled for one compute capability runs on a GPU of another.

Source: CUDA's binary compatibility rule (same major, binary's minor <= device's), with the exceptions of torch's own
table (torch/cuda/__init__.py, DEVICE_REQUIREMENT, 2.14): integrated GPUs share a major with cards they do not match;
from CUDA 13.2 on, Xavier and Orin run the cards' code too (DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION).
"""

from collections.abc import Iterable

from gpudoctor.lazy import lazy_re

Capability = tuple[int, int]

# Devices that do not run the code of their major, except code made for themselves.
APART: dict[Capability, tuple[Capability, ...]] = {
    (5, 3): ((5, 3),),
    (6, 2): ((6, 2),),
    (7, 2): ((7, 2),),
    (8, 7): ((8, 7),),
    (10, 1): ((10, 1),),
    (11, 0): ((10, 1), (11, 0)),  # Thor: called 10.1 before CUDA 13
}
INTEGRATED = frozenset(APART)
UNIFIED = frozenset(((7, 2), (8, 7)))
UNIFIED_SINCE = (13, 2)
ARCHITECTURE = lazy_re(r"(sm|compute)_(\d{1,3})(\d)([af]?)")


def runs_on(architecture: str, device: Capability, cuda: tuple[int, int] | None = None) -> bool:
    """Whether "sm_80" (machine code) or "compute_80" (PTX, compiled by the driver) runs on a device.

    A name of another form counts as not running. Suffix "a" binds code to one capability, "f" to one family.
    `cuda`: the CUDA that the code was built with, where it is known.
    """
    match = ARCHITECTURE.fullmatch(architecture)
    if match is None:
        return False
    code, suffix = (int(match[2]), int(match[3])), match[4]
    if suffix == "a":
        return code == device
    if match[1] == "compute" and not suffix:
        return code <= device
    unified = cuda is not None and cuda >= UNIFIED_SINCE and device in UNIFIED
    if device in APART and not (unified and code not in INTEGRATED):
        return code in APART[device]
    return code not in INTEGRATED and code[0] == device[0] and code[1] <= device[1]


def any_runs_on(architectures: Iterable[str], device: Capability, cuda: tuple[int, int] | None = None) -> bool:
    """Whether a build with these architectures has something for the device."""
    return any(runs_on(architecture, device, cuda) for architecture in architectures)


FIRST_CUDA: dict[int, tuple[int, int]] = {8: (11, 0), 9: (11, 8), 10: (12, 8), 12: (12, 8)}
"""Major capability -> the first CUDA whose compiler knows it (CUDA's release notes)."""


def is_too_old_for(cuda: tuple[int, int] | None, device: Capability) -> bool:
    """Whether a build with this CUDA cannot hold machine code for the device, whatever it was compiled for."""
    first = FIRST_CUDA.get(device[0])
    return cuda is not None and first is not None and cuda < first


def shown(capability: Capability) -> str:
    """ "8.6"."""
    return f"{capability[0]}.{capability[1]}"
