"""Every variable that some release of NCCL reads, what it is for, and names that only look like one.

Sources: the tables' own (table_fabric.py, table_machine.py); NVIDIA's NCCL user guide, page "Environment
variables", for renamed ones; the documentation of the plugins named below for theirs.
"""

import difflib
import re
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from gpudoctor.knowledge.nccl import table_fabric, table_machine
from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.lazy import lazy_re

Version = tuple[int, ...]
Standing = Literal["read", "too-new", "gone"]

NEWEST_IN_TABLE = (2, 32, 3)
OLDEST_IN_TABLE = (2, 3, 5)


class NcclVariable(NamedTuple):
    """A row of the table: NAME SINCE LAST KIND DEFAULTS PURPOSE."""

    name: str
    since: Version
    """The first release that reads it; (2, 3, 5) is the first public source, so it may be older."""
    last: Version | None
    """The last release that reads it; None when the newest in the table does."""
    kind: Literal["integer", "text"]
    """integer: read by strtoll, so a word is 0. text: a word, a list or a path."""
    defaults: tuple[tuple[Version, int | None], ...]
    """Of an integer: from which release on, and the value; None where NCCL decides by itself."""
    purpose: str
    """A phrase without a final period."""

    def default(self, version: Version) -> int | None:
        """The value when it is not set; None where NCCL decides by itself, or before there was one."""
        value_by_default = None
        for start, value in self.defaults:
            if start <= version:
                value_by_default = value
        return value_by_default

    def standing(self, version: Version) -> Standing:
        """Whether this release reads it."""
        if version < self.since and self.since > OLDEST_IN_TABLE:
            return "too-new"
        return "gone" if self.last is not None and version > self.last else "read"


@cache
def table() -> dict[str, NcclVariable]:
    """All rows, by name."""
    lines = (table_fabric.ROWS + table_machine.ROWS).splitlines()
    rows = (_row(line) for line in lines if line and not line.startswith("#"))
    return {row.name: row for row in rows}


def _row(line: str) -> NcclVariable:
    name, since, last, kind, defaults, purpose = line.split(" ", 5)
    first = parsed(since)
    values: list[tuple[Version, int | None]] = []
    for part in defaults.split(",") if defaults != "-" else ():
        start, _, value = part.rpartition(":")
        values.append((parsed(start) if start else first, None if value == "auto" else int(value)))
    return NcclVariable(
        name,
        first,
        None if last == "-" else parsed(last),
        "integer" if kind == "integer" else "text",
        tuple(values),
        purpose,
    )


RENAMED = {
    "NCCL_CHECK_POINTERS": "NCCL_CHECK_MODE",
    "NCCL_GRAPH": "NCCL_GRAPH_FILE",
    "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_LL_THRESHOLD": "NCCL_PROTO",
    "NCCL_MNNVL": "NCCL_MNNVL_ENABLE",
    "NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS": "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_RINGS": "NCCL_GRAPH_FILE",
    "NCCL_THREAD_THRESHOLD": "NCCL_THREAD_THRESHOLDS",
    "NCCL_TREE_THRESHOLD": "NCCL_ALGO",
    "NCCL_WORK_FIFO_DEPTH": "NCCL_WORK_FIFO_BYTES",
}
"""What took the place of a variable that is gone or deprecated."""

OF_OTHERS = lazy_re(
    r"""NCCL_(
        HOME | VERSION | ROOT(_DIR)? | PATH | DIR | LIBRARY | LIB(_DIR)? | INCLUDE(_DIR)? | LINK | INSTALL_PATH | PREFIX
      | (SRC|SOURCE|BUILD|REPO|TAG|BRANCH|COMMIT)(_\w+)? | VER | MAJOR | MINOR | PATCH | VERSION_\w+ | \w+_VERSION
      | TESTS?(_\w+)? | TUNER_(CONFIG|PLUGIN|COST)_?\w* | INSPECTOR_\w+ | PROFILER?_\w+ | IBEXT_\w+ | UCX_\w+
      | SHARP_\w+ | COLLNET_\w+ | PLUGIN_\w+ | OFI_\w+ | FASTRAK_\w+ | GPUDIRECTTCPXO?_\w+ | NVLS_TUNER_\w+
      | GIB_\w+ | SHIMNET_\w+ | GPUVIZ_\w+
      | DEBUG_NOWARN | TELEMETRY_\w+ | OPENMPI_\w+
    )""",
    re.VERBOSE,
)
"""Names that plugins, tests, images and build systems use: legal, though NCCL itself reads none of them.

HPC-X (IBEXT, UCX, SHARP), aws-ofi-nccl (OFI), Google Cloud (FASTRAK, GPUDIRECTTCPX, GIB, SHIMNET), nccl-tests (TESTS),
NCCL's own example plugins (INSPECTOR, PROFILE, TUNER_CONFIG_FILE), builds of PyTorch (ROOT, INCLUDE_DIR, LIB_DIR).
"""

TORCH_NAMES = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
    "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
}
"""Torch's own variables before torch 2.2 put TORCH_ before their names: NCCL never read them."""

INVENTED = {
    "NCCL_TIMEOUT": "NCCL has no timeout; the one that ends a hanging job is "
    "torch.distributed.init_process_group(timeout=timedelta(...)), 10 minutes unless told otherwise",
    "NCCL_SHM_DISABLED": "the variable is NCCL_SHM_DISABLE, without the D at the end",
    "NCCL_P2P_DISABLED": "the variable is NCCL_P2P_DISABLE, without the D at the end",
    "NCCL_IB_DISABLED": "the variable is NCCL_IB_DISABLE, without the D at the end",
    "NCCL_IB_NET_LATENCY": "no release of NCCL reads it, though public scripts set it",
}
"""Names that public scripts set and nothing reads, with what to do about each."""


def is_known(name: str) -> bool:
    """Whether some release of NCCL, one of its plugins or torch reads it."""
    return name in table() or name in TORCH_NAMES or OF_OTHERS.fullmatch(name) is not None


def nearest(name: str, names: Iterable[str] = ()) -> str:
    """The known name that `name` was probably meant to be; empty when none is near."""
    known = {*table(), *names}
    close = difflib.get_close_matches(name[:120].upper(), known, n=1, cutoff=0.85)
    return close[0] if close else ""
