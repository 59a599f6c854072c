"""What `gpudoctor env` says of a machine: the variables to set, each with its reason, and why there are no more."""

import re
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.envelope import Answer
from gpudoctor.lazy import lazy_re

SuggestionKind = Literal["needed", "work-around", "debugging"]
"""needed: NCCL's or torch's own choice is wrong on this machine. work-around: it hides a fault whose cure the reason
names. debugging: for looking into a failure, not for production."""


HARMLESS = frozenset(
    {
        "NCCL_IB_HCA",
        "NCCL_IB_DISABLE",
        "NCCL_IB_GID_INDEX",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_CROSS_NIC",
        "NCCL_SOCKET_IFNAME",
        "NCCL_SOCKET_NTHREADS",
        "NCCL_NSOCKS_PERTHREAD",
        "GLOO_SOCKET_IFNAME",
        "NCCL_P2P_LEVEL",
        "NCCL_P2P_DISABLE",
        "NCCL_SHM_DISABLE",
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "TORCH_NCCL_TRACE_BUFFER_SIZE",
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
    }
)
"""Variables by which nothing is loaded, and no file is written."""
PLAIN = lazy_re(r"[\w.,:=^+-]{1,1000}", re.ASCII)


class Suggestion(Struct, frozen=True):
    """One variable to set."""

    name: str
    value: str
    reason: str
    """What was seen on this machine and what follows from it, in sentences."""
    holds_for: str
    """The versions for which this is right: "NCCL 2.20 and older", "every NCCL version"."""
    verify: str
    """How to see that it took effect, as a sentence."""
    kind: SuggestionKind = "needed"
    replaces: str | None = None
    """The value that is in force now, another one; None when the variable is not set."""
    replaces_from: str = ""
    """Where that value stands: "environment", or the file's path."""


class Present(Struct, frozen=True):
    """A variable that would be suggested if it were not set already."""

    name: str
    value: str
    """As it is set."""
    origin: str
    """ "environment", or a file's path."""
    suggested: str
    """What would be suggested without it: mostly the same."""


class Unjudged(Struct, frozen=True):
    """Something that could not be judged, because a fact was not read."""

    what: str
    """The variables in question."""
    reason: str


class Advice(Answer, frozen=True):
    """The answer of `gpudoctor env`."""

    command: ClassVar[str] = "env"
    signs: ClassVar[tuple[str, ...]] = ("suggestions", "silent")
    suggestions: tuple[Suggestion, ...]
    silent: str
    """Why nothing (more) is suggested, as a sentence; empty when that could not be told."""
    nodes: int | None = None
    """How many nodes were asked for; None: nobody said."""
    scope: str = ""
    """For how many nodes this is, and how that was decided, as a sentence."""
    nccl_version: str = ""
    """ "2.27.5"; empty when unknown."""
    present: tuple[Present, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    knows_gpus: bool = True
    """Whether it was read which GPUs there are, which decides."""

    def without_lines(self) -> "Advice":
        """Each suggestion is a line to paste: of a file, those stay that choose a device, a number or a word."""
        kept = tuple(
            suggestion
            for suggestion in self.suggestions
            if suggestion.name in HARMLESS and PLAIN.fullmatch(suggestion.value)
        )
        left_out = tuple(
            Unjudged(suggestion.name[:60], "it comes from a file, and is none that gpudoctor would suggest")
            for suggestion in self.suggestions
            if suggestion not in kept
        )
        return replace(self, suggestions=kept, unjudged=(*self.unjudged, *left_out))

    @property
    def exit_status(self) -> int:
        """3 where nothing could be judged."""
        return 3 if self.unjudged and not self.suggestions and not self.knows_gpus else 0
