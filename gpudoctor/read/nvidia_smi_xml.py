"""Reads the output of `nvidia-smi -q -x`, also from within a larger text, and as far as it goes when it was cut.

Only what stands between <nvidia_smi_log> and its end is given to the parser, so no document type, and with it no
entity, is ever declared to it; a file that tries to is refused.
"""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_log import Log, LogEntry
from gpudoctor.read.nvidia_smi_text import CORRUPTED_INFOROM, failed_gpus
from gpudoctor.snapshot import UnreadableSnapshot

START = lazy_re(r"<nvidia_smi_log[\s>]")
END = "</nvidia_smi_log>"
ENTITY = lazy_re(r"<!ENTITY\s", re.IGNORECASE)
NOT_IN_XML = lazy_re("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")

MAXIMUM_DEPTH = 32
"""nvidia-smi itself nests six deep."""
MAXIMUM_ELEMENTS = 1_000_000
"""A log of 16 GPUs with all their supported clocks has about 50 000."""
PIECE = 65536


def read_log(text: str) -> Log:
    """The first log in a text that holds `<nvidia_smi_log`. Raises `UnreadableSnapshot` in one line."""
    start = START.search(text)
    assert start is not None
    if ENTITY.search(text):
        raise UnreadableSnapshot("it declares XML entities, which nvidia-smi never does; refused")
    end = text.find(END, start.start())
    is_whole = end >= 0
    body = text[start.start() : end + len(END) if is_whole else len(text)]
    root = _tree(body, is_whole, text.count("\n", 0, start.start()))
    header, gpus = LogEntry("header"), []
    for child in root.children:
        if child.name == "gpu":
            gpus.append(child)
        else:
            header.children.append(child)
    return Log(
        "nvidia-smi -q -x",
        header,
        tuple(gpus),
        failed=failed_gpus(text),
        corrupted_inforoms=tuple(match["pci"] for match in CORRUPTED_INFOROM.finditer(text)),
        number_of_logs=len(START.findall(text)),
    )


def _tree(body: str, is_whole: bool, lines_before: int) -> LogEntry:
    """The root as a `LogEntry`. Of a cut log, what came before the cut."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(events=("start", "end"))
    top = LogEntry("")
    stack = [top]
    count = 0
    try:
        for position in range(0, len(body), PIECE):
            parser.feed(NOT_IN_XML.sub("\ufffd", body[position : position + PIECE]))
            for event, *elements in parser.read_events():
                element = elements[0]
                assert isinstance(element, ElementTree.Element)  # of these events, it always is one
                if event == "start":
                    count += 1
                    if len(stack) > MAXIMUM_DEPTH or count > MAXIMUM_ELEMENTS:
                        raise UnreadableSnapshot("its XML has more elements than nvidia-smi ever writes; refused")
                    entry = LogEntry(element.tag, element.get("id", ""))
                    stack[-1].children.append(entry)
                    stack.append(entry)
                else:
                    # Only now is the text complete; an element that the cut left open keeps none.
                    entry = stack.pop()
                    entry.value = entry.value or (element.text or "").strip()
                    element.clear()
        if is_whole:
            parser.close()
    except ElementTree.ParseError as error:
        has_gpu = any(entry.name == "gpu" for root in top.children for entry in root.children)
        if is_whole or not has_gpu:
            line, column = error.position
            reason = str(error).partition(":")[0]
            raise UnreadableSnapshot(
                f"line {line + lines_before}, column {column + 1}: not the XML that nvidia-smi writes ({reason})"
            ) from None
    for parent, unfinished in reversed(list(pairwise(stack))):
        unfinished.is_cut = True
        if not unfinished.children:
            parent.children.remove(unfinished)
    return top.children[0] if top.children else LogEntry("nvidia_smi_log")
