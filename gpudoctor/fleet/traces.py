"""What the texts of a rank and of torchrun say: stacks, the exception that decided, the part of NCCL's log that does.

Pure functions over text of any kind: cut short, interleaved, not text at all.
"""

import re

from gpudoctor.knowledge.faulthandler_text import dumped_threads
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Frame

KEPT_FRAMES = 40
KEPT_ERROR_CHARACTERS = 2000
KEPT_ERROR_LINES = 6


def stack(text: str) -> tuple[Frame, ...]:
    """The frames that faulthandler wrote as a process crashed, innermost first: of the thread that did, else of the
    main thread, which it writes last."""
    threads = dumped_threads(text)
    chosen = [thread for thread in threads if thread.is_current][-1:] or threads[-1:]
    return tuple(frame for thread in chosen for frame in thread.frames[:KEPT_FRAMES])


_OWN_FRAME = lazy_re(
    r"^\s|^Traceback \(most recent call last\):|^\[|^[WEI]\d{4} |^The above exception|^During handling"
)
_RANK_PREFIX = lazy_re(r"^\[rank\d+\]: ?", re.MULTILINE)
"""torch's own excepthook puts it before each line."""
_FATAL = lazy_re(r"^(Fatal Python error: .*|terminate called .*|[ \t]+what\(\): .*)$", re.MULTILINE)


def error(text: str) -> str:
    """The exception that a program ended with, else the end of what it wrote to standard error, in a few lines."""
    text = _RANK_PREFIX.sub("", text)
    _, header, after = text.rpartition("Traceback (most recent call last):\n")
    if header:
        lines = after.splitlines()
        for number, line in enumerate(lines):
            if line and not _OWN_FRAME.match(line):
                return _short(_until_next_log_line(lines[number:]))
    fatal = [match.strip() for match in _FATAL.findall(text)]
    if fatal:
        return _short(fatal)
    return _short([line for line in text.splitlines() if line.strip()][-3:])


def _until_next_log_line(lines: list[str]) -> list[str]:
    kept = [lines[0]]
    for line in lines[1:]:
        if not line.strip() or re.match(
            r"^(\[[A-Z]|[WEI]\d{4} |=====|Thread 0x|Current thread 0x|Exception raised from)", line
        ):
            break
        kept.append(line)
    return kept


def _short(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines[:KEPT_ERROR_LINES])[:KEPT_ERROR_CHARACTERS]


_DECISIVE = lazy_re(
    r"NCCL (WARN|version|ERROR)|NCCL_[A-Z_]+ set|Using (network|non-device|.*net plugin)|NET/|Bootstrap|"
    r" via |nRanks|nNodes|NVLS|GDR|GPU Direct|Connected all|Init (COMPLETE|timings)|Algo|Trees |Channel 00|"
    r"failed|[Ee]rror"
)


def log(text: str, limit: int) -> str:
    """At most `limit` characters of NCCL's log: all of it, or its warnings, its choices, and its end.

    What is left out is said in a line of its own.
    """
    if len(text) <= limit:
        return text
    lines = text.splitlines(keepends=True)
    keep: set[int] = set()
    room = limit - 100  # for the line that says what is missing
    warnings = [number for number, line in enumerate(lines) if "NCCL WARN" in line]
    choices = [number for number, line in enumerate(lines) if _DECISIVE.search(line)]
    end = range(len(lines) - 1, -1, -1)
    # The last lines first, as far as a quarter of the room goes: they tell what it was at.
    for wanted, share in ((end, room // 4), (warnings, room // 2), (choices, room), (end, room)):
        used = sum(len(lines[number]) for number in keep)
        for number in wanted:
            if number in keep:
                continue
            if used + len(lines[number]) > share:
                break
            keep.add(number)
            used += len(lines[number])
    kept = "".join(lines[number] for number in sorted(keep))
    return f"[gpudoctor: {len(lines) - len(keep)} of {len(lines)} lines are left out here]\n{kept}"
