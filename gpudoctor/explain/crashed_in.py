"""Where a process crashed in native code, as the log tells it: the library of the kernel's segfault line, the function
of absl's or glog's PC line, the innermost frame of Python's own stack. What brings that is what has to be changed.

Forms: kernel arch/x86/mm/fault.c (show_signal_msg); abseil symbolize and failure_signal_handler; Python faulthandler.c.
"""

import re
from collections.abc import Iterable, Iterator

from gpudoctor.cause import Fix
from gpudoctor.explain.told_by_place import package_of
from gpudoctor.lazy import lazy_re

OF_KERNEL = lazy_re(r"\bsegfault at [0-9a-f]{1,16} ip [^\n]{1,80} in (?P<what>[\w.+-]{1,80}\.so[\w.+-]{0,40})\[")
OF_FUNCTION = lazy_re(r"\bPC: @ {1,8}0x[0-9a-f]{4,16} {1,8}\(\S{1,80}\) {1,8}(?P<what>[A-Za-z_][\w:~]{2,120})")
STACK = lazy_re(r"\b(?:Stack|Current thread 0x[0-9a-f]{4,16}(?: \[[^\]\n]{0,40}\])?) \(most recent call first\):")
FRAME = lazy_re(r'File "(?P<path>[^"\n]{1,300})", line (?P<line>\d{1,7}) in (?P<name>\S{1,120})')
BEHIND = 2
"""Lines behind the head of a stack in which its first frame stands; ranks may write between."""
NOT_THE_CRASH = ("libc.so", "libc-", "libpthread", "ld-linux", "libstdc++")
"""What every program calls; who called it wrongly is not told by that."""


def fix_of_crash(texts: Iterable[str]) -> Fix | None:
    """None: the log tells no place."""
    known = list(texts)
    places = list(dict.fromkeys(_native(known))) or list(dict.fromkeys(_python(known)))
    if not places:
        return None
    return Fix(
        f"It crashed in {' and in '.join(places[:2])}. Update, rebuild or do without what brings that, in releases "
        "that belong to this torch, CUDA and driver; where it crashes on one node alone, leave that node out and look "
        "at its driver and its memory."
    )


def _native(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for form in (OF_KERNEL, OF_FUNCTION):
            match: re.Match[str] | None = form.search(text)
            if match is not None and not match["what"].startswith(NOT_THE_CRASH):
                yield match["what"]


def _python(texts: list[str]) -> Iterator[str]:
    for index, text in enumerate(texts):
        if STACK.search(text):
            frames = (FRAME.search(behind) for behind in texts[index + 1 : index + 1 + BEHIND])
            if frame := next((frame for frame in frames if frame is not None), None):
                package = package_of(frame["path"])
                of = f" of {package}" if package else ""
                yield f"{frame['name']}{of} ({frame['path'].rpartition('/')[2]}, line {frame['line']})"
