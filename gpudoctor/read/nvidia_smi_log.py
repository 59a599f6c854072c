"""What both forms of `nvidia-smi -q` are once their syntax is gone: a tree of names and values for each GPU."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

Form = Literal["nvidia-smi -q", "nvidia-smi -q -x"]


class LogEntry:
    """A line of the text form, or an element of the XML form, with what stands below it.

    Names are in lower case with single blanks, also for the underscores of the XML form. A line such as "HW Slowdown :
    Not Active" has both a value and children. `is_cut` says that the file ends before the entry does.
    """

    __slots__ = ("children", "is_cut", "name", "value")

    def __init__(self, name: str, value: str = "") -> None:
        self.name = " ".join(name.replace("_", " ").split()).casefold()
        self.value = value
        self.children: list[LogEntry] = []
        self.is_cut = False

    def named(self, name: str) -> Iterator["LogEntry"]:
        """The children of that name, in order."""
        return (child for child in self.children if child.name == name)

    def at(self, path: str) -> "LogEntry | None":
        """The first entry at a path of names separated by "/"; None when there is none."""
        entry: LogEntry | None = self
        for name in path.split("/"):
            entry = next(entry.named(name), None) if entry is not None else None
        return entry


class FailedGpu(NamedTuple):
    """A GPU of which nvidia-smi could say only why it could not be opened."""

    number: int | None
    """NVML's index, when it was named."""
    pci_bus_id: str
    """As nvidia-smi wrote it; empty when it named the index alone."""
    reason: str


class Log(NamedTuple):
    """One run of `nvidia-smi -q`."""

    form: Form
    header: LogEntry
    """What stands before the first GPU: driver version, number of attached GPUs."""
    gpus: tuple[LogEntry, ...]
    """One for each GPU section; the value is the PCI address in its heading."""
    failed: tuple[FailedGpu, ...] = ()
    corrupted_inforoms: tuple[str, ...] = ()
    """PCI addresses of the GPUs that nvidia-smi warns about."""
    number_of_logs: int = 1
    """How many runs the file holds."""
    number: int = 1
    """Which of them this is."""
