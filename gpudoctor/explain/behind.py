"""Lines behind one that shows a symptom which say more of it."""

from collections.abc import Iterator

from gpudoctor.explain.stacks import LIBRARY
from gpudoctor.lazy import lazy_re

LONGEST = 500
"""Bytes of such a line."""
CRASH = lazy_re(rb"Fatal Python error: |Caught signal \d|\*\*\* Process received signal \*\*\*")
CRASH_FRAME = lazy_re(
    rb'File "(?P<file>[^"\n]{1,500})", line \d{1,9}|(?:^|\s)#?\d{1,3}\s+0x[0-9a-f]{1,16}[: ]|\[ ?\d{1,3}\] \S{1,300}\('
)
SIGNAL_FRAME = lazy_re(rb"__sigaction|__restore_rt|libpthread|\bkillpg\b|gsignal|\babort\b|\braise\b|<signal handler")
MOST_OF_A_CRASH = 40
"""Lines behind the first of a crash that are looked at: faulthandler's, UCX's and Open MPI's stacks."""


def lines_behind(lines: list[bytes], index: int) -> Iterator[tuple[int, bytes]]:
    """What a line announces by its colon; of a crash's stack, the first frame that is not of the signal itself, and the
    first of the user's program. With how far behind they stand."""
    head = lines[index][-200:].rstrip()
    if head.endswith(b":"):
        if index + 1 < len(lines) and lines[index + 1].strip():
            yield 1, lines[index + 1][:LONGEST]
        return
    if not CRASH.search(lines[index][:1000]):
        return
    innermost = True
    for offset, raw in enumerate(lines[index + 1 : index + MOST_OF_A_CRASH], 1):
        frame = CRASH_FRAME.search(raw[:1000])
        if frame is None or SIGNAL_FRAME.search(raw[:1000]):
            continue
        if innermost or (frame["file"] and not LIBRARY.search(frame["file"].decode("utf-8", "replace"))):
            yield offset, raw[:LONGEST]
            if frame["file"] is None or not LIBRARY.search(frame["file"].decode("utf-8", "replace")):
                return
        innermost = False
