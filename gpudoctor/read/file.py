"""Files that people have -> Snapshot: a captured snapshot, or what nvidia-smi wrote, whole or pasted.

Whatever the bytes are, the answer is a snapshot or one line that says what they seem to be and what to do.
"""

import contextlib
import re
from typing import Literal

import msgspec

from gpudoctor import bounded
from gpudoctor.read import nvidia_smi, nvidia_smi_log, nvidia_smi_text, nvidia_smi_xml
from gpudoctor.read.held import held
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json

WHAT_TO_GIVE = (
    "--from reads what `gpudoctor capture -o FILE`, `nvidia-smi -q -x > FILE` or `nvidia-smi -q > FILE` wrote"
)

BINARY = (
    (b"\x1f\x8b", "compressed by gzip; unpack it first: gunzip FILE"),
    (b"PK\x03\x04", "a zip archive; unpack it first: unzip FILE"),
    (b"\xfd7zXZ", "compressed by xz; unpack it first: unxz FILE"),
    (b"(\xb5/\xfd", "compressed by zstd; unpack it first: unzstd FILE"),
    (b"BZh", "compressed by bzip2; unpack it first: bunzip2 FILE"),
    (b"\x89PNG", "a picture (PNG); the text itself is needed"),
    (b"\xff\xd8\xff", "a picture (JPEG); the text itself is needed"),
    (b"%PDF", "a PDF; the text itself is needed"),
    (b"\x7fELF", "a program"),
)
"""How files begin that are no text, and what they are."""

BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),  # what Windows PowerShell's > writes
    (b"\xfe\xff", "utf-16-be"),
)

LOOKALIKES = (
    (
        re.compile(r"^\| NVIDIA-SMI \d", re.MULTILINE),
        "the summary table of nvidia-smi, which leaves most of it out; run `nvidia-smi -q > FILE`",
    ),
    (re.compile(r"^GPU \d+: .*\(UUID: ", re.MULTILINE), "a list of GPUs (nvidia-smi -L); run `nvidia-smi -q > FILE`"),
    (
        re.compile(r"^#\s*gpu\s+(pwr|pid)\b", re.MULTILINE),
        "what `nvidia-smi dmon` or `pmon` shows; run `nvidia-smi -q > FILE`",
    ),
    (
        re.compile(
            r"^(?=.*\b(?:uuid|memory\.|utilization\.|driver_version|pci\.bus_id|temperature\.|pid))"
            r"[a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?(?:, [a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?)+[ \t]*$",
            re.MULTILINE,
        ),
        "a table of `nvidia-smi --query-gpu`; run `nvidia-smi -q > FILE`",
    ),
    (
        re.compile(r"^\s*GPU0\s+(GPU1|CPU Affinity|NIC0|NV\d|X)\b", re.MULTILINE),
        "what `nvidia-smi topo -m` shows; run `nvidia-smi -q > FILE`",
    ),
    (re.compile(r"ROCm System Management Interface|AMD-SMI"), "output of AMD's tools, which --from does not read yet"),
    (
        re.compile(r"^(Collecting environment information|PyTorch version: )", re.MULTILINE),
        "a report of torch.utils.collect_env; run `gpudoctor capture -o FILE` there",
    ),
    (re.compile(r"NVRM: Xid"), "a kernel log; run `gpudoctor capture -o FILE` there, which reads it too"),
)
"""Texts that people have instead, and what to do."""

ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
FENCE = re.compile(r"^\s*(?:```|~~~)[\w-]*\n(?P<inside>.*)\n(?:```|~~~)\s*$", re.DOTALL)


def load_snapshot(path: str) -> Snapshot:
    """Read a file, or standard input for "-".

    Raises `UnreadableSnapshot` with one line: what the file seems to be, where in it, and what to do.
    """
    return snapshot_of(_bytes(path))


def snapshot_of(raw: bytes) -> Snapshot:
    """The snapshot in a file's content. Raises `UnreadableSnapshot` as `load_snapshot` does, and nothing else."""
    text = _text(raw)
    fenced = FENCE.match(text)
    stripped = (fenced["inside"] if fenced else text).strip()
    if not stripped:
        raise UnreadableSnapshot(f"it is empty; {WHAT_TO_GIVE}")
    if stripped[0] == "{":
        return _from_json(stripped)
    if nvidia_smi_xml.START.search(text):
        return _of_log(nvidia_smi_xml.read_log(text))
    if nvidia_smi_text.find(text):
        return _of_log(nvidia_smi_text.read_log(text))
    complaint = nvidia_smi.from_messages(text)
    if complaint is not None:
        return complaint
    raise UnreadableSnapshot(_guess(stripped))


def _of_log(log: nvidia_smi_log.Log) -> Snapshot:
    """What nvidia-smi's own words make, where its names are names."""
    return held(msgspec.to_builtins(nvidia_smi.to_snapshot(log)), Snapshot)


def _bytes(path: str) -> bytes:
    try:
        return bounded.contents(path, bounded.SNAPSHOT.size)
    except bounded.TooLarge as error:
        raise UnreadableSnapshot(f"{error}; {WHAT_TO_GIVE}") from None
    except bounded.Refused as error:
        raise UnreadableSnapshot(str(error)) from None


def _text(raw: bytes) -> str:
    """The content as text with Unix line ends, without terminal colours. Raises `UnreadableSnapshot`."""
    for beginning, what in BINARY:
        if raw.startswith(beginning):
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


class _Evidence(msgspec.Struct):
    """What only the evidence of a job has."""

    kind: Literal["gpudoctor hang evidence"]


def _from_json(text: str) -> Snapshot:
    raw = text.encode("utf-8", "replace")
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=_Evidence)
        raise UnreadableSnapshot("it is the evidence of a job (capture --pid); `gpudoctor hang --from FILE` reads it")
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=_Report)
        raise UnreadableSnapshot(
            "it is a report (check --json), which no longer holds the facts; "
            "write those with `gpudoctor capture -o FILE`"
        )
    return from_json(raw)


def _guess(text: str) -> str:
    for pattern, what in LOOKALIKES:
        match = pattern.search(text)
        if match is not None:
            return f"line {text.count(chr(10), 0, match.start()) + 1}: it seems to be {what}"
    first = " ".join(text.partition("\n")[0].split())
    shown = first if len(first) <= 60 else first[:57] + "..."
    return f"it is neither a snapshot nor output of nvidia-smi (it begins with {shown!a}); {WHAT_TO_GIVE}"
