"""What the kernel lets a process wait for: a lock on a file, memory of its cgroup."""

from msgspec import Struct

from gpudoctor.named import PidOrNone

IN_KERNEL = "it waits in the kernel (state D), where reading it could block"
"""Why a process was not read."""


class AwaitedLock(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A lock on a file for which a process waits in the kernel."""

    file: str = ""
    """As the process names it; empty where that is not told."""
    holder: PidOrNone = 0
    """Who has it; 0: not told, as of another container's."""
    process: str = ""
    """The holder's name; empty where it has ended, or is not seen."""


class CgroupMemory(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Of the cgroup above a process with the least left: v2's memory.high counts as a limit too."""

    folder: str = ""
    limit_bytes: int = 0
    used_bytes: int = 0
