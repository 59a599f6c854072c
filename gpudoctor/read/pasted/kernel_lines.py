"""Lines of NVIDIA's driver in a kernel log, of dmesg, journalctl or a file in /var/log: the errors that it logged."""

import re

from gpudoctor.knowledge.gpus.xid import RECENT_SECONDS
from gpudoctor.lazy import lazy_re
from gpudoctor.read.kernel_log import KernelLine, examine
from gpudoctor.read.pasted.part import Pasted, ToolOutput
from gpudoctor.snapshot import read

SOURCE = "a kernel log"
HEADING = lazy_re(r".{0,120}?(?:\bNVRM: |\bSXid \(|\bnvidia-nv(?:link|switch)\d{0,3}: )")
STAMP = lazy_re(r"\[ *(?P<seconds>\d{1,12}(?:\.\d{1,9})?)\]", re.ASCII)


def parse(block: Pasted) -> ToolOutput:
    """When the log was copied, it does not say: only what is old beside its last line is given an age."""
    lines = [KernelLine(_seconds(line), line) for line in block.lines if line]
    end = max((line.seconds for line in lines if line.seconds is not None), default=0.0)
    aged = [line if end - (line.seconds or 0.0) > RECENT_SECONDS else line._replace(seconds=None) for line in lines]
    return ToolOutput(
        SOURCE,
        kernel_log=read(SOURCE, examine(aged, end)),
        tells="only errors (`gpudoctor explain FILE` reads all of it)",
    )


def _seconds(line: str) -> float | None:
    stamp = STAMP.search(line[:40])
    return float(stamp["seconds"]) if stamp else None
