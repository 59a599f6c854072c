"""How busy the GPUs of this node are, asked of NVML in a child with a deadline."""

from typing import Any

import msgspec

from gpudoctor.active import Child, ChildReply, messages, own_module, start
from gpudoctor.read.driver_traces import may_have_nvml
from gpudoctor.snapshot.evidence import GpuUse, Unread

NAME = "gpu use"
MAXIMUM_GPUS = 1024


def begin(timeout: float) -> Child | None:
    """Start the child; None where this machine has no trace of NVIDIA. To be called in the main thread."""
    if not may_have_nvml():
        return None
    try:
        return start(NAME, own_module("gpudoctor.read.nvml_use"), timeout=timeout)
    except OSError:
        return None


def assemble(reply: ChildReply) -> tuple[tuple[GpuUse, ...], list[Unread]]:
    """The child's lines; a GPU that owes its answer is lost."""
    count = 0
    by_index: dict[int, GpuUse] = {}
    for message in messages(reply.output):
        if error := message.get("error"):
            return (), [Unread("use of the GPUs", str(error)[:300])]
        number = message.get("count")
        if isinstance(number, int) and 0 <= number <= MAXIMUM_GPUS:
            count = number
        if isinstance(message.get("gpu"), int):
            use = _use(message)
            if use is not None and 0 <= use.index < MAXIMUM_GPUS:
                by_index[use.index] = use
    if not count and not by_index:
        return (), [Unread("use of the GPUs", reply.failure or "NVML gave no answer")] if reply.failure else []
    why = reply.failure or "NVML gave no answer for it"
    total = max(count, max(by_index, default=-1) + 1)
    return tuple(by_index.get(index) or GpuUse(index=index, lost=why) for index in range(total)), []


def _use(message: dict[str, Any]) -> GpuUse | None:
    try:
        return msgspec.convert({**message, "index": message["gpu"]}, GpuUse)
    except (msgspec.ValidationError, KeyError):
        return None
