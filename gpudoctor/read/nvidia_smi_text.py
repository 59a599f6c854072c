"""Finds and reads the output of `nvidia-smi -q` in a text, which may be a whole pasted terminal session.

Sections are told by their indentation. The log may be quoted ("> ") or indented as a whole; it ends at the first
line that stands at its own margin and is neither a heading of a GPU nor part of the header.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_log import FailedGpu, Log, LogEntry
from gpudoctor.read.nvidia_smi_values import NVML_TEXTS
from gpudoctor.snapshot import UnreadableSnapshot

PCI = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
TITLE = lazy_re(r"^(?P<margin>[ \t>|]*)=+NVSMI LOG=+[ \t]*$", re.MULTILINE)
HEADING = lazy_re(rf"^(?P<margin>[ \t>|]*)GPU[ \t]+(?P<pci>{PCI})[ \t]*$", re.MULTILINE)
FIRST_LINE_OF_A_GPU = lazy_re(r"[ \t]+Product Name[ \t]*:")
DEPRECATED = lazy_re(r"\s*\[Deprecated;[^\]]*\]$")
"""r610 appends this to the values of names that it replaced."""
WHOLE_VALUE = lazy_re(r"None|N/A|.*\d (?:MiB|W|C|MHz|%)")
"""A value at the very end of a file that cannot be the beginning of a longer one."""
BETWEEN = r"(?:[ \t]+|[ \t]*\n[ \t>|]*)"
"""Between the words of a message, which a mail or chat may have folded and quoted."""


def spaced(pattern: str) -> re.Pattern[str]:
    """The pattern of a message, with any blank as `BETWEEN`."""
    return re.compile(re.sub(r"(?<!\[) ", lambda _: BETWEEN, pattern), re.IGNORECASE | re.MULTILINE)


def plain(words: str) -> str:
    """What `spaced` found, on one line and without a markdown writer's stars."""
    return " ".join(re.split(BETWEEN, words.strip(" \t*`")))


FAILED_GPU = spaced(
    rf"Unable to determine the device handle for gpu{BETWEEN}?(?:(?P<index>\d{{1,3}}):)?{BETWEEN}?(?:(?P<pci>{PCI}):)?"
    rf"{BETWEEN}?(?P<reason>(?:{'|'.join(NVML_TEXTS)}|unable to communicate with gpu because it requires a reset)"
    r"(?:\.[^\n]*)?|[^\n]*)"
)
CORRUPTED_INFOROM = lazy_re(rf"infoROM is corrupted at gpu (?P<pci>{PCI})", re.IGNORECASE)

SILENT = lazy_re(r": *(?:ERR!|\[?Unknown Error|\[?GPU is lost|\[?GPU requires reset)")
"""Values of a GPU that does not answer."""

MAXIMUM_DEPTH = 16
"""nvidia-smi itself nests five deep."""
MAXIMUM_LINE = 4096
"""Characters; nvidia-smi's longest lines are process names, and shorter."""


class SmiLine(NamedTuple):
    """A line of the log. `value` is None where there is no colon."""

    indent: int
    name: str
    value: str | None


def find(text: str) -> re.Match[str] | None:
    """Where a log begins: at its title, or at the heading of a GPU in a log that was pasted in part."""
    return TITLE.search(text) or next(filter(_opens_a_section, HEADING.finditer(text)), None)


def _opens_a_section(heading: re.Match[str]) -> bool:
    text, end = heading.string, heading.end()
    following = text[end + 1 : end + 1 + MAXIMUM_LINE].partition("\n")[0]
    return FIRST_LINE_OF_A_GPU.match(_unquoted(following, heading["margin"]) or "") is not None


def failed_gpus(text: str) -> tuple[FailedGpu, ...]:
    """The GPUs that nvidia-smi could not open, each once."""
    failed = {
        (match["index"], match["pci"]): FailedGpu(
            int(match["index"]) if match["index"] else None, match["pci"] or "", plain(match["reason"])[:200]
        )
        for match in FAILED_GPU.finditer(text)
    }
    return tuple(failed.values())


def read_log(text: str) -> Log:
    """The log in a text in which `find` finds one. Raises `UnreadableSnapshot` in one line."""
    start, number = _chosen(text)
    header, gpus = LogEntry("header"), list[LogEntry]()
    # The innermost entry that is open at each indentation, outermost first.
    open_entries: list[tuple[int, LogEntry]] = [(-1, header)]
    for text_line in _lines(text, start):
        heading = HEADING.fullmatch(text_line)
        if heading is not None:
            gpus.append(LogEntry("gpu", heading["pci"]))
            open_entries = [(-1, gpus[-1])]
            continue
        if FAILED_GPU.search(text_line) or CORRUPTED_INFOROM.search(text_line):
            continue
        line = _line(text_line)
        if line is None:
            continue
        if line.indent == 0 and not _is_of_the_header(line, gpus):
            _complain_about_lost_indentation(line, gpus)
            break
        while open_entries[-1][0] >= line.indent:
            open_entries.pop()
        if len(open_entries) > MAXIMUM_DEPTH:
            raise UnreadableSnapshot("the nvidia-smi -q output in it nests deeper than nvidia-smi's ever does")
        entry = LogEntry(line.name, DEPRECATED.sub("", line.value or ""))
        open_entries[-1][1].children.append(entry)
        open_entries.append((line.indent, entry))
    return Log(
        "nvidia-smi -q",
        header,
        tuple(gpus),
        failed=failed_gpus(text),
        corrupted_inforoms=tuple(match["pci"] for match in CORRUPTED_INFOROM.finditer(text)),
        number_of_logs=max(1, len(TITLE.findall(text))),
        number=number,
    )


def _chosen(text: str) -> tuple[re.Match[str], int]:
    """Of several logs the first in which a GPU does not answer, else the first; and which it is."""
    titles = list(TITLE.finditer(text))
    ends = [*(title.start() for title in titles[1:]), len(text)]
    for number, (title, end) in enumerate(zip(titles, ends, strict=False), 1):
        if SILENT.search(text, title.end(), end):
            return title, number
    start = find(text)
    assert start is not None
    return start, 1


def _line(text: str) -> SmiLine | None:
    """A line in its parts; None for a blank one, and for one that is too long to be nvidia-smi's."""
    content = text.lstrip(" ")
    if not content or len(text) > MAXIMUM_LINE:
        return None
    name, colon, value = content.partition(":")
    if colon and (not value or value.startswith(" ")):
        return SmiLine(len(text) - len(content), name, value.strip())
    return SmiLine(len(text) - len(content), content, None)


def _is_of_the_header(line: SmiLine, gpus: list[LogEntry]) -> bool:
    # "vGPU Driver Capability" (since 535) is the only section among the header's values.
    return not gpus and (line.value is not None or line.name == "vGPU Driver Capability")


def _complain_about_lost_indentation(line: SmiLine, gpus: list[LogEntry]) -> None:
    if gpus and not gpus[-1].children and line.name.strip() == "Product Name":
        raise UnreadableSnapshot(
            "the nvidia-smi -q output in it has lost its indentation, and with it which value is which; "
            "save it with `nvidia-smi -q > FILE` instead of copying it"
        )


def _lines(text: str, start: re.Match[str]) -> Iterator[str]:
    """The lines of the log without its margin, up to the first that lacks it."""
    position = start.start() if start.re.pattern == HEADING.pattern else start.end() + 1
    while position < len(text):
        end = text.find("\n", position)
        line = _unquoted(text[position : end if end >= 0 else len(text)], start["margin"])
        if line is None or (end < 0 and not _is_whole(line)):
            return
        yield line.expandtabs(4).rstrip()
        position = end + 1 if end >= 0 else len(text)


def _is_whole(last: str) -> bool:
    """Whether a last line without line end is complete: the file may have been cut within its value."""
    return HEADING.fullmatch(last) is not None or WHOLE_VALUE.fullmatch(last.rpartition(" : ")[2].strip()) is not None


def _unquoted(line: str, margin: str) -> str | None:
    """The line without the margin; None when it lacks it and is not blank."""
    if line.startswith(margin):
        return line[len(margin) :]
    return "" if not line.strip(" \t>|") else None
