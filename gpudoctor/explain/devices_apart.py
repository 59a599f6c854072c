"""What torch says where tensors that must lie on one device lie on two: which fix it is of a program's error."""

import re

_DEVICE = r"[a-z]{2,20}(?::\d{1,4})?"
OF_DATA_PARALLEL = re.compile(
    rf"module must have its parameters and buffers on device (?P<device>{_DEVICE}) \(device_ids\[0\]\) but found one "
    rf"of them on device: (?P<other>{_DEVICE})"
)
"""torch nn/parallel/data_parallel.py; DistributedDataParallel has other words."""
OF_TENSORS = (
    re.compile(rf"found at least two devices, (?P<device>{_DEVICE}) and (?P<other>{_DEVICE})!"),
    re.compile(
        rf"but got \w{{1,60}} is on (?P<other>{_DEVICE}), different from other tensors on (?P<device>{_DEVICE})"
    ),
    re.compile(rf"Tensor on device (?P<other>{_DEVICE}) is not on the expected device (?P<device>{_DEVICE})!"),
)
"""torch ATen/TensorIterator.cpp, ATen/core/adaption.cpp (formerly in the words of the first), _prims_common."""
OF_ONE_DEVICE = re.compile(
    r"Expected all tensors to be on the same device|is not on the expected device|"
    r"arguments are located on different GPUs|[Aa]ll input tensors must be on the same device"
)
"""The last two: torch before 1.8."""


def devices_apart(message: str, *, alone: bool) -> tuple[str, dict[str, str]] | None:
    """The variant of the cause program-error, and values for its text; None where a message says nothing of it.
    `alone`: nothing speaks of several ranks, of which each has a GPU of its own."""
    if found := OF_DATA_PARALLEL.search(message):
        return "data-parallel", found.groupdict()
    if not OF_ONE_DEVICE.search(message):
        return None
    told = next((each for pattern in OF_TENSORS if (each := pattern.search(message))), None)
    values = told.groupdict() if told else {"device": "one device", "other": "another"}
    return "two-devices" if alone else "two-devices-of-a-rank", values
