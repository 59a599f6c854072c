"""What NVIDIA's Xid and SXid codes mean for a training run: whose fault they are, and what to do.

Codes and immediate actions follow NVIDIA's Xid catalog
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of October 2025), SXids the Fabric Manager User
Guide (appendix D). The words are ours. Level "application" is NVIDIA's RESTART_APP where it then sends the
reader to the program or the driver; "hardware" is everything that NVIDIA answers with a reset, a reboot, a
look at the machine or its support, and memory errors; "notice" is what NVIDIA says to ignore.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from gpudoctor.knowledge.wording import ago
from gpudoctor.snapshot import XidEvent

Level = Literal["application", "hardware", "notice"]
Action = Literal[
    "none",
    "restart-job",
    "reset-gpu",
    "reboot",
    "check-power",
    "check-nvlink",
    "update-driver",
    "restart-vm",
    "contact-support",
]

RECENT_SECONDS = 24 * 3600.0
"""Younger events speak of the machine as it is. AzNHC looks back 2 hours and runs all the time; a doctor is called
the morning after."""


UNKNOWN = "unknown code"


class Xid(NamedTuple):
    """One code. `meaning` says what happened, for somebody who never heard of it."""

    code: int
    name: str
    level: Level
    action: Action
    meaning: str


_COPY = "a copy engine met an error while moving data for the program"
_VIDEO = "a video or image engine met an error; training does not use it, data pipelines on the GPU do"
_NVLINK5 = "a part of the GPU's NVLink 5 interface reported an error"

_SINGLE = (
    Xid(8, "GPU stopped processing", "application", "restart-job", "the program's work did not finish in time"),
    Xid(11, "corrupted command stream", "application", "restart-job", "the GPU was given commands it cannot read"),
    Xid(
        13,
        "graphics engine exception",
        "application",
        "restart-job",
        "a kernel read or wrote outside its memory, or used an illegal instruction",
    ),
    Xid(25, "illegal command stream", "application", "restart-job", "the GPU was given commands it cannot read"),
    Xid(
        31,
        "GPU memory page fault",
        "application",
        "restart-job",
        "a kernel used an address that is not mapped on the GPU",
    ),
    Xid(32, "corrupted command stream", "application", "restart-job", "commands reached the GPU damaged"),
    Xid(37, "driver firmware error", "notice", "none", "the firmware refused a request of the driver"),
    Xid(38, "driver firmware error", "notice", "none", "a firmware watchdog expired"),
    Xid(43, "GPU stopped processing", "notice", "none", "a fault in the program stopped its work on the GPU"),
    Xid(44, "fault during a context switch", "notice", "none", "the GPU met a fault between two programs"),
    Xid(
        45,
        "preemptive cleanup",
        "notice",
        "none",
        "the driver removed a program's work, because it was killed or after another error",
    ),
    Xid(46, "GPU stopped processing", "hardware", "reset-gpu", "the GPU did not answer the driver in time"),
    Xid(48, "double-bit ECC error", "hardware", "reset-gpu", "GPU memory lost data that ECC could not restore"),
    Xid(54, "auxiliary power not connected", "hardware", "check-power", "the board lacks a power cable"),
    Xid(60, "video processor exception", "application", "restart-job", _VIDEO),
    Xid(62, "internal microcontroller halted", "hardware", "reset-gpu", "the GPU's own controller stopped"),
    Xid(
        63,
        "memory row remapped",
        "notice",
        "none",
        "the GPU noted a bad row of its memory for replacement; the next reset completes it",
    ),
    Xid(64, "row remapping failed", "hardware", "reset-gpu", "the GPU could not replace a bad row of its memory"),
    Xid(66, "illegal access by the driver", "notice", "none", "the firmware refused an access of the driver"),
    Xid(67, "illegal access by the driver", "notice", "none", "the firmware refused an access of the driver"),
    Xid(
        69, "graphics engine class error", "application", "restart-job", "the GPU was given a command it does not know"
    ),
    Xid(74, "NVLink error", "hardware", "check-nvlink", "a link between this GPU and another one or a switch failed"),
    Xid(78, "vGPU start error", "hardware", "update-driver", "guest and host driver of a virtual GPU do not fit"),
    Xid(79, "GPU has fallen off the bus", "hardware", "reboot", "the GPU no longer answers on PCIe"),
    Xid(80, "corrupted data sent to the GPU", "application", "restart-job", "commands reached the GPU damaged"),
    Xid(92, "many single-bit ECC errors", "notice", "none", "GPU memory is being corrected unusually often"),
    Xid(93, "InfoROM wear limit exceeded", "notice", "none", "the GPU's small flash memory was written too often"),
    Xid(
        94,
        "contained memory error",
        "hardware",
        "restart-job",
        "GPU memory lost data, and only the program that used it was stopped",
    ),
    Xid(95, "uncontained memory error", "hardware", "reset-gpu", "GPU memory lost data that any program may have used"),
    Xid(108, "NVLink translation error", "notice", "none", "a peer used an address that is no longer mapped"),
    Xid(109, "context switch timeout", "hardware", "reset-gpu", "the GPU could not put a program's work aside in time"),
    Xid(110, "security fault", "hardware", "reset-gpu", "the GPU's protection unit reported a fault"),
    Xid(119, "GSP RPC timeout", "hardware", "reset-gpu", "the GPU's system processor did not answer the driver"),
    Xid(120, "GSP error", "hardware", "reset-gpu", "the GPU's system processor failed"),
    Xid(121, "C2C error", "notice", "none", "the link between CPU and GPU corrected an error"),
    Xid(136, "NVLink training failed", "hardware", "reset-gpu", "an NVLink did not come up"),
    Xid(
        137,
        "NVLink privilege error",
        "notice",
        "none",
        "a peer GPU used memory it may not, often after its owner died",
    ),
    Xid(140, "unrecovered ECC error", "hardware", "reset-gpu", "GPU memory lost data that ECC could not restore"),
    Xid(141, "fast path error", "notice", "none", "CUDA fell back to its slower path of submission"),
    Xid(143, "GPU initialisation failed", "hardware", "reset-gpu", "the GPU did not start"),
    Xid(151, "key rotation error", "hardware", "restart-vm", "confidential computing lost its keys"),
    Xid(
        154,
        "recovery action changed",
        "notice",
        "none",
        "the driver changed its advice for this GPU, after another Xid",
    ),
    Xid(155, "NVLink error found by software", "hardware", "reset-gpu", "the driver took an NVLink down"),
    Xid(156, "resource retired", "hardware", "reset-gpu", "the GPU put a bad unit out of use; a reset completes it"),
    Xid(157, "resource retirement failed", "notice", "none", "the GPU could not put a bad unit out of use"),
    Xid(158, "fatal timeout", "hardware", "reset-gpu", "the GPU did not answer in time"),
    Xid(
        159,
        "CHI non-data error",
        "hardware",
        "contact-support",
        "the coherent link between CPU and GPU reported an error, most often after an Xid of its own cause",
    ),
    Xid(160, "channel retired", "notice", "none", "the GPU put a memory channel out of use"),
    Xid(161, "channel retirement failed", "notice", "none", "the GPU could not put a memory channel out of use"),
    Xid(162, "power smoothing engaged", "notice", "none", "the power smoothing circuit works again"),
    Xid(163, "power smoothing disengaged", "notice", "none", "the power smoothing circuit is off"),
    Xid(164, "power smoothing wearing out", "notice", "none", "the power smoothing circuit has little life left"),
    Xid(165, "power smoothing worn out", "notice", "none", "the power smoothing circuit has no life left"),
    Xid(
        166,
        "NVLink traffic before encryption",
        "hardware",
        "contact-support",
        "confidential computing saw traffic on a link that was not yet set up for encryption",
    ),
    Xid(167, "PCIe fatal timeout", "hardware", "reboot", "the GPU did not answer on PCIe in time"),
    Xid(168, "GPU memory reduced", "hardware", "reset-gpu", "the GPU found errors in its protected memory"),
    Xid(169, "security controller halted", "hardware", "reset-gpu", "the GPU's own controller stopped"),
    Xid(
        170,
        "NVLink security interrupt",
        "hardware",
        "contact-support",
        "a link reported an interrupt while confidential computing was on",
    ),
    Xid(171, "uncorrectable DRAM error", "hardware", "reset-gpu", "GPU memory lost data that ECC could not restore"),
    Xid(172, "uncorrectable SRAM error", "hardware", "reset-gpu", "a cache in the GPU lost data"),
)

_FAMILIES: tuple[tuple[tuple[int, ...], str, Level, Action, str], ...] = (
    ((*range(39, 42), *range(70, 73), *range(75, 78), 85), "copy engine error", "application", "restart-job", _COPY),
    (tuple(range(126, 136)), "copy engine error", "application", "restart-job", _COPY),
    ((68, 83, 84, 88, 89, 96, 97, 98), "video decoder error", "application", "restart-job", _VIDEO),
    ((82, *range(99, 106)), "JPEG decoder error", "application", "restart-job", _VIDEO),
    ((86, 139), "optical flow engine error", "application", "restart-job", _VIDEO),
    ((142,), "video encoder error", "hardware", "contact-support", _VIDEO),
    (tuple(range(144, 151)), "NVLink 5 error", "hardware", "check-nvlink", _NVLINK5),
    ((14, 106, 107), "test message", "notice", "none", "a message that NVIDIA says to ignore"),
    ((152, 153), "DLA error", "notice", "none", "the deep learning accelerator of an SoC met an error"),
)

CATALOG: dict[int, Xid] = {xid.code: xid for xid in _SINGLE} | {
    code: Xid(code, name, level, action, meaning) for codes, name, level, action, meaning in _FAMILIES for code in codes
}

# The notices of which the catalog says: ignore, and then, when they come again, ask NVIDIA's support.
THEN_SUPPORT = frozenset((14, 38, 43, 44, 67, 92, 93, 121, 141, 152, 153, 157))

# What a code is one sign of, beside what NVML tells of the same GPU.
OF_MEMORY = frozenset((48, 63, 64, 92, 94, 95, 140, 171))
OF_NVLINK = frozenset((74, 136, *range(144, 151), 155))
OF_A_LOST_GPU = frozenset((79, 167))

# Of the Fabric Manager User Guide's tables, those that need other words than "an NVSwitch error".
SXID_NAMES = {
    11004: "a packet that the fabric's partition does not allow",
    12028: "a packet that a link refused on its way out",
    20034: "an NVLink went down",
    **dict.fromkeys(
        (
            11012,
            11021,
            11022,
            11023,
            12021,
            12023,
            15008,
            15011,
            19049,
            19055,
            19057,
            19059,
            19062,
            19065,
            19068,
            19071,
            24001,
            24002,
            24003,
        ),
        "a single-bit error that the switch corrected",
    ),
}
SXID_CORRECTED = frozenset(code for code, name in SXID_NAMES.items() if "corrected" in name)


def explain(code: int) -> Xid:
    """The code's entry; a code that the catalog lacks is taken for hardware, its cure unknown."""
    unknown = "NVIDIA's catalog gives this code no meaning that concerns a user"
    return CATALOG.get(code) or Xid(code, UNKNOWN, "hardware", "none", unknown)


def is_recent(event: XidEvent) -> bool:
    """Within the last day; an event without a time counts as recent."""
    return event.seconds_ago is None or event.seconds_ago <= RECENT_SECONDS


def by_code(events: Iterable[XidEvent]) -> dict[int, list[XidEvent]]:
    """Events by code, in the order in which the codes first came."""
    groups: dict[int, list[XidEvent]] = {}
    for event in events:
        groups.setdefault(event.code, []).append(event)
    return groups


def latest(events: Sequence[XidEvent]) -> XidEvent:
    """The youngest event; the last of those without a time. `events` is not empty."""
    return min(reversed(events), key=lambda event: event.seconds_ago if event.seconds_ago is not None else math.inf)


def times(events: Sequence[XidEvent]) -> str:
    """ "once, 2 hours ago", "3 times, the last 40 seconds ago"; without an age when no line tells one."""
    youngest = latest(events).seconds_ago
    often = "once" if len(events) == 1 else f"{len(events)} times"
    if youngest is None:
        return often
    return f"{often}, {'' if len(events) == 1 else 'the last '}{ago(youngest)}"
