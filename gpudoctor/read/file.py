"""Files that people have -> Snapshot: a captured snapshot, or what nvidia-smi and other tools wrote, whole or pasted.

Whatever the bytes are, the answer is a snapshot or one line that says what they seem to be and what to do.
"""

import contextlib
import gzip
import io
import re
import zlib
from typing import Annotated, Literal

import msgspec

from gpudoctor import bounded
from gpudoctor.embedded import json_in
from gpudoctor.knowledge.typed import as_typed
from gpudoctor.lazy import lazy_re
from gpudoctor.no_text import kind_of
from gpudoctor.read import nvidia_smi, nvidia_smi_text, nvidia_smi_xml
from gpudoctor.read.held import held
from gpudoctor.read.pasted import bug_report, diagnosed, not_there
from gpudoctor.read.pasted.lookalikes import LOOKALIKES, found_in, is_of_nvidia, of_others, seems
from gpudoctor.read.pasted.table import SOURCE as TABLE
from gpudoctor.read.pasted.together import together, with_complaint
from gpudoctor.read.pasted.tools import parts_of
from gpudoctor.read.pasted.troubles import told_troubles
from gpudoctor.read.pasted.unfolded import unfolded
from gpudoctor.read.pasted.unprefixed import layers
from gpudoctor.snapshot import Snapshot, ToldTrouble, UnreadableSnapshot, from_json, read

WHAT_TO_GIVE = (
    "--from reads what `gpudoctor capture -o FILE`, `nvidia-smi -q > FILE`, `nvidia-smi` and tools like it wrote; "
    "`gpudoctor explain FILE` looks for trouble in any text"
)

MOST_PASTED = 8 * 1024**2
"""Characters of a text in which output of several tools is looked for; a paste is far shorter."""
EMPTY = "an empty file"
"""It holds nothing: of the machine that it was to tell of, nothing is known."""

BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),  # what Windows PowerShell's > writes
    (b"\xfe\xff", "utf-16-be"),
)

ANSWER = "it is an answer of `gpudoctor {0}`, and no machine; `gpudoctor {0} --from FILE` shows it again"
TOLD = "what other programs tell in the text"

ESCAPES = lazy_re(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
FENCE = lazy_re(r"^\s*(?:```|~~~)[\w-]*\n(?P<inside>.*)\n(?:```|~~~)\s*$", re.DOTALL)


class NotReadYet(UnreadableSnapshot):
    """Output about a machine that has a name and no reader: of the machine nothing can be told."""

    status = 3


def load_snapshot(path: str) -> Snapshot:
    """Read a file, or standard input for "-".

    Raises `UnreadableSnapshot` with one line: what the file seems to be, where in it, and what to do.
    """
    return snapshot_of(content(path))


def snapshot_of(raw: bytes) -> Snapshot:
    """The snapshot in a file's content. Raises `UnreadableSnapshot` as `load_snapshot` does, and nothing else."""
    text = bug_report.of_now(_text(json_in(_unpacked(raw))))
    fenced = FENCE.match(text)
    stripped = (fenced["inside"] if fenced else text).strip()
    if not stripped:
        return nvidia_smi.unread_snapshot(EMPTY)
    if stripped[0] == "{":
        return _from_json(stripped)
    if nvidia_smi_xml.START.search(text):
        text = text.replace("\u00a0", " ")
    else:
        text = as_typed(text.encode("utf-8", "replace")).decode()
    troubles = told_troubles(text) if len(text) <= MOST_PASTED else ()
    for each in (text, *(layers(text) if len(text) <= MOST_PASTED else ())):
        machine = _machine(each)
        if machine is not None:
            whole = _with_the_rest_named(_with_troubles(machine, troubles), each)
            return held(msgspec.to_builtins(whole), Snapshot)
    if troubles:
        return held(msgspec.to_builtins(_with_troubles(nvidia_smi.unread_snapshot(TOLD), troubles)), Snapshot)
    if (said := not_there.complaint(stripped, is_alone=True)) is not None:
        return msgspec.structs.replace(nvidia_smi.unread_snapshot(not_there.SOURCE), lacks=(said,))
    raise (NotReadYet if of_others(stripped) else UnreadableSnapshot)(_guess(stripped))


def _machine(text: str) -> Snapshot | None:
    """What the tools in it say of a machine; None where none speaks. Raises `UnreadableSnapshot`."""
    log = _log(text)
    parts = parts_of(unfolded(text)) if len(text) <= MOST_PASTED else []
    if not is_of_nvidia(text):
        parts = [part for part in parts if part.source != TABLE]
    complaint = nvidia_smi.from_messages(text, is_alone=not parts and log is None)
    return with_complaint(together(parts, log), complaint) if parts else log if log is not None else complaint


def _with_troubles(machine: Snapshot, troubles: tuple[ToldTrouble, ...]) -> Snapshot:
    if not troubles:
        return machine
    own = machine.told_troubles
    source = f"{own.source}, {TOLD}" if own.is_read else TOLD
    return msgspec.structs.replace(machine, told_troubles=read(source, (*own.value_or(()), *troubles)))


def _with_the_rest_named(machine: Snapshot, text: str) -> Snapshot:
    """What stands in the same text and is not read here, or says that nvidia-smi could not be run."""
    lookalikes = [_said(what, match).partition(";")[0] for match, what in found_in(text, LOOKALIKES)]
    if (said := not_there.complaint(text, is_alone=False)) is not None:
        machine = msgspec.structs.replace(machine, lacks=(*machine.lacks, said))
    if not lookalikes:
        return machine
    return msgspec.structs.replace(machine, origin=f"{machine.origin}; not read: {', '.join(lookalikes)}")


def _said(what: str, match: re.Match[str]) -> str:
    return what.format(**{name: value.lower() for name, value in match.groupdict().items()})


def _log(text: str) -> Snapshot | None:
    """What `nvidia-smi -q` says in it."""
    if nvidia_smi_xml.START.search(text):
        log = nvidia_smi_xml.read_log(text)
    elif nvidia_smi_text.find(text):
        log = nvidia_smi_text.read_log(text)
    else:
        return None
    return nvidia_smi.to_snapshot(log)


def content(path: str) -> bytes:
    """A file's bytes, or standard input's for "-". Raises `UnreadableSnapshot`."""
    try:
        return bounded.contents(path, bounded.SNAPSHOT.size)
    except bounded.TooLarge as error:
        raise UnreadableSnapshot(f"{error}; {WHAT_TO_GIVE}") from None
    except bounded.Refused as error:
        raise UnreadableSnapshot(str(error)) from None


def _unpacked(raw: bytes) -> bytes:
    """What gzip packed, as nvidia-bug-report.sh does, piece by piece; of one that is cut, what is left. Raises
    `UnreadableSnapshot`."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    whole = bytearray()
    with contextlib.suppress(OSError, EOFError, zlib.error), gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
        while piece := packed.read1(bounded.PIECE):
            whole += piece
            if len(whole) > bounded.SNAPSHOT.size:
                raise UnreadableSnapshot(
                    f"unpacked it is more than {bounded.SNAPSHOT.size // bounded.MIB} MiB, the most that is read"
                )
    if not whole:
        raise UnreadableSnapshot("it begins as gzip packs a file, and nothing of it can be unpacked")
    return bytes(whole)


def _text(raw: bytes) -> str:
    """The content as text with Unix line ends, without terminal colours. Raises `UnreadableSnapshot`."""
    if what := kind_of(raw):
        raise UnreadableSnapshot(f"it is {what}")
    mark = next(((mark, codec) for mark, codec in BYTE_ORDER_MARKS if raw.startswith(mark)), None)
    if mark is not None:
        text = raw[len(mark[0]) :].decode(mark[1], "replace")
    elif raw[1:200:2].count(0) > 50:
        text = raw.decode("utf-16-le", "replace")
    elif raw[0:200:2].count(0) > 50:
        text = raw.decode("utf-16-be", "replace")
    else:
        text = raw.decode("utf-8", "replace")
    if "\x00" in text:
        raise UnreadableSnapshot(f"it is not text: a NUL character stands at position {text.index(chr(0))}")
    return ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class _Report(msgspec.Struct):
    """What only a report has. A snapshot's decoder passes over names that it does not know."""

    verdict: str
    results: list[msgspec.Raw]


class _Answer(msgspec.Struct):
    """What every answer has, of any command."""

    command: Annotated[str, msgspec.Meta(pattern="^[a-z-]{2,20}$")]
    verdict: str
    findings: list[msgspec.Raw]


class _Evidence(msgspec.Struct):
    """What only the evidence of a job has."""

    kind: Literal["gpudoctor hang evidence"]


def _from_json(text: str) -> Snapshot:
    raw = text.encode("utf-8", "replace")
    if '"test_categories"' in text:
        with contextlib.suppress(msgspec.DecodeError, RecursionError, StopIteration):
            return together([diagnosed.parse_json(raw)])
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=_Evidence)
        raise UnreadableSnapshot("it is the evidence of a job (capture --pid); `gpudoctor hang --from FILE` reads it")
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=_Report)
        raise UnreadableSnapshot(
            "it is a report (check --json), which no longer holds the facts; "
            "write those with `gpudoctor capture -o FILE`"
        )
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        raise UnreadableSnapshot(ANSWER.format(msgspec.json.decode(raw, type=_Answer).command))
    return from_json(raw)


def no_answer(raw: bytes) -> str:
    """What a file seems to be that is none of gpudoctor's own."""
    wanted = "what gpudoctor has written is wanted (--json, --html, capture)"
    try:
        text = _text(raw)
    except UnreadableSnapshot as error:
        return f"{error}; {wanted}"
    seen = seems(text)
    return f"{_seeming(text, *seen) if seen is not None else 'it is no JSON'}; {wanted}"


def _seeming(text: str, match: re.Match[str], what: str) -> str:
    return f"line {text.count(chr(10), 0, match.start()) + 1}: it seems to be {_said(what, match)}"


def _guess(text: str) -> str:
    if (seen := seems(text)) is not None:
        return _seeming(text, *seen)
    first = " ".join(text.partition("\n")[0].split())
    shown = first if len(first) <= 60 else first[:57] + "..."
    return f"it is neither a snapshot nor output of nvidia-smi (it begins with {shown!r}); {WHAT_TO_GIVE}"
