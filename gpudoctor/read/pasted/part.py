"""What a parser is given, the lines of one tool, and what it makes of them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import NEVER_IN_OUTPUT, Gpu, KernelLog, PciDevice, RdmaDevice, Reading, ToldTrouble, missing
from gpudoctor.snapshot.section import Section

S = TypeVar("S", bound=msgspec.Struct)

LONGEST_LINE = 600
"""Characters that a parser looks at; what the tools write is shorter."""


SILENT = lazy_re(r"ERR!|Unknown Error|GPU is lost|GPU requires (?:a )?reset", re.IGNORECASE)
"""Words of a GPU that does not answer; in the table, one may stand for a whole half of a row."""


class Pasted(NamedTuple):
    """The lines of one tool, without margin; blanks at their ends are gone."""

    lines: tuple[str, ...]
    ends_the_text: bool = False
    """Nothing follows it: it may have been cut."""


class ToolOutput(NamedTuple):
    """What one tool's output says."""

    source: str
    """How the tool is called: "nvidia-smi topo -m"."""
    gpus: tuple[Gpu, ...] | None = None
    nvidia: Mapping[str, Reading[Any]] = {}
    """Other fields of `Nvidia`."""
    rdma: tuple[RdmaDevice, ...] | None = None
    pci: tuple[PciDevice, ...] | None = None
    modules: Reading[tuple[str, ...]] | None = None
    """Drivers of accelerators that are loaded."""
    kernel_log: Reading[KernelLog] | None = None
    training: Mapping[str, Reading[Any]] = {}
    """Fields of `Training`."""
    troubles: tuple[ToldTrouble, ...] = ()
    """What it says itself that is wrong with a device."""
    lacks: tuple[str, ...] = ()
    """What was cut off, in words."""
    tells: str = ""
    """Where it says nothing of how the devices are: what it tells instead ("names")."""


def unread(structure: type[S], source: str) -> S:
    """A part of a snapshot of which such output never says anything; what nobody asked for stays so."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(structure):
        default = field.default
        if isinstance(default, Reading):
            fields[field.name] = missing(source, NEVER_IN_OUTPUT, default.missing_kind or "failed")
        elif isinstance(default, Section):
            fields[field.name] = unread(type(default), source)
    return structure(**fields)


def never_told(structure: type[msgspec.Struct], source: str) -> dict[str, Any]:
    """Of each fact of a structure, that such output never says it."""
    facts = msgspec.structs.fields(structure)
    return {fact.name: missing(source, NEVER_IN_OUTPUT) for fact in facts if isinstance(fact.default, Reading)}


def gpu(index: int, source: str, facts: Mapping[str, Reading[Any]]) -> Gpu:
    """A GPU of which these facts are told, and never any other: that is said of the tool, alike for all its GPUs."""
    return Gpu(index, **{**never_told(Gpu, source.partition(",")[0]), **facts})


def has_silent(gpus: Iterable[Gpu]) -> bool:
    """Whether one of them does not answer."""
    facts = (getattr(each, name) for each in gpus for name in Gpu.__struct_fields__ if name != "index")
    return any(not reading.is_read and SILENT.search(reading.reason) for reading in facts)
