"""What stands beside a decisive line and belongs to it: the command that it answers, the heading of its block, other
lines of the same speaker, and what a message goes on with. They name the device, file, host or partition of which the
line itself tells only what is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from gpudoctor.explain.course import PROGRESS
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.explain.writers import unprefixed
from gpudoctor.lazy import lazy_re

MOST = 3
"""Lines that are shown beside those that decide (our choice)."""
OF_BLOCK, OF_COMMAND, OF_BOX = 12, 4, 8
"""Lines that are looked through for a block's heading, a command, a box's entries (our rules of thumb)."""
DECISIVE = 2
"""Of a cause's lines the first are looked beside."""
COMMAND = lazy_re(r"^(?:\+{1,4} |(?:\([\w.-]{1,40}\) )?(?:\[?[\w.@~:/-]{1,80}\]?)?[$#] |> (?=[a-z./]))\S")
"""A shell's trace (set -x), or what was typed behind a prompt."""
SPEAKER = lazy_re(r"^(?P<name>[A-Za-z][\w./@+-]{1,40})(?:\[\d{1,8}\])?: ")
ENTRY = lazy_re(r"^\s{1,16}[A-Z][\w /-]{1,30}: {1,12}\S|^\s{0,8}[A-Z][\w ]{2,24}:\s{2,20}\S")
"""A name and a value, as Open MPI's boxes, ibstat and kubectl's descriptions have them."""
FRAMES = lazy_re(r"^\W{10,}$")
CONTINUES = lazy_re(
    r"^(?:Mounting arguments|Output|Caused by|Reason|Message|Details?|status code"
    r"|stderr|Cause): "
)
"""How a message goes on in a line of its own (Kubernetes' mount helper, Go's and Java's errors)."""


def beside(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause:
    """The cause, with such lines behind its own."""
    added = _lines(cause.evidence[:DECISIVE], cause.evidence, ends)
    return structs.replace(cause, evidence=(*cause.evidence, *added)) if added else cause


def with_beside(trouble: tuple[Line, ...], ends: Mapping[str, Sequence[tuple[int, str]]]) -> tuple[Line, ...]:
    """Lines of trouble with those beside the first of them, in the log's order."""
    added = _lines(trouble[:DECISIVE], trouble, ends)
    return tuple(sorted((*trouble, *added), key=lambda line: (line.file, line.line))) if added else trouble


def _lines(
    decisive: Sequence[Line], shown: Sequence[Line], ends: Mapping[str, Sequence[tuple[int, str]]]
) -> tuple[Line, ...]:
    known = {(line.file, line.line) for line in shown}
    added: list[Line] = []
    for line in decisive:
        end = ends.get(line.file, ())
        at = next((index for index, (number, _) in enumerate(end) if number == line.line), None)
        if at is None or FRAME.search(end[at][1]):
            continue
        for index in _beside(end, at):
            number, text = end[index]
            if (line.file, number) not in known and not PROGRESS.search(text) and len(added) < MOST:
                known.add((line.file, number))
                added.append(Line(line.file, number, clean(text)))
    return tuple(added)


def _beside(end: Sequence[tuple[int, str]], at: int) -> Iterator[int]:
    """Indices of lines that belong to the one at this index."""
    text = end[at][1]
    if (indent := _indent(text)) and (heading := _heading(end, at, indent)) is not None:
        yield heading
    for index in range(at - 1, max(-1, at - 1 - OF_COMMAND), -1):
        if COMMAND.match(end[index][1]):
            yield index
            break
    if name := _speaker(text):
        for index in (at - 1, at + 1):
            if 0 <= index < len(end) and _speaker(end[index][1]) == name:
                yield index
    for index in range(at + 1, min(len(end), at + 1 + OF_BOX)):
        behind = end[index][1]
        if FRAMES.match(behind):
            break
        if ENTRY.match(behind) or CONTINUES.match(behind.strip()):
            yield index


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _heading(end: Sequence[tuple[int, str]], at: int, indent: int) -> int | None:
    """The line above that stands least far in."""
    least: int | None = None
    for index in range(at - 1, max(-1, at - 1 - OF_BLOCK), -1):
        if (here := _indent(end[index][1])) < indent:
            least, indent = index, here
        if not indent:
            break
    return least if not indent else None


def _speaker(text: str) -> str:
    rest = unprefixed(text).lstrip()
    match = SPEAKER.match(rest)
    return match["name"] if match else ""
