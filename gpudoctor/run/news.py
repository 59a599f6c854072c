"""How much a job has said that it had not said before: a heartbeat, or a warning that comes again and again, goes on
while a job hangs, and is no sign that it gets on.

Lines are alike where they differ by the time only, or by how often Ray did not repeat them. A step's line, or a bar's,
has another number each time.
"""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from gpudoctor.knowledge.decoration import COLORS, REPEATED, TIME
from gpudoctor.lazy import lazy_re

MOST_BYTES = 64 * 1024
"""Of one look: who says more in a second says something new."""
MOST_LINES = 256
"""Unlike ones that are remembered, the latest."""
LINE_END = lazy_re(rb"[\r\n]+")


class News:
    """Of files that grow, by paths; what a path names may be rotated away or not be there yet."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._ends = dict.fromkeys(paths, 0)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._count = 0

    def count(self) -> int:
        """Lines so far that were new; it grows by one where that was not to be read."""
        for path, end in self._ends.items():
            try:
                size = path.stat().st_size
                if size == end:
                    continue
                begin = end if size > end else 0
                self._ends[path] = size
                if size - begin > MOST_BYTES:
                    self._count += 1
                    continue
                with path.open("rb", buffering=0) as file:
                    file.seek(begin)
                    self._read(file.read(size - begin))
            except FileNotFoundError:
                continue
            except OSError:  # it may be written and not read
                self._count += 1
        return self._count

    def _read(self, text: bytes) -> None:
        for line in LINE_END.split(REPEATED.sub(b"", COLORS.sub(b"", text))):
            said = TIME.sub(b"", line).strip()
            if not said:
                continue
            self._count += said not in self._known
            self._known[said] = None
            self._known.move_to_end(said)
            if len(self._known) > MOST_LINES:
                self._known.popitem(last=False)
