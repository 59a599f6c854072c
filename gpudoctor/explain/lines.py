"""Streams logs as blocks of whole lines: plain or compressed, UTF-8 or UTF-16, files, folders of torchrun, pipes."""

import bz2
import codecs
import gzip
import importlib
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from msgspec import Struct

from gpudoctor import bounded
from gpudoctor.explain.straight import Straight, straight
from gpudoctor.explain.stream import Stream
from gpudoctor.knowledge.bug_report import START, WITHIN
from gpudoctor.knowledge.decoration import COLORS, REPEATED, REPEATED_MARK
from gpudoctor.no_text import kind_of

BLOCK = 1024 * 1024
"""Bytes that are looked at at once; from 256 KiB on, larger blocks are not faster (tests/bench/explain.py)."""
AHEAD = 64 * 1024
"""What follows a block and is kept with it, so that a traceback which starts near its end is seen whole."""
LONGEST_LINE = 4 * BLOCK
"""A longer one is looked at in pieces; a word that lies across two of them is missed."""
MOST_FILES = 10_000
"""Of one folder."""
MOST_NAMES = 1_000_000
"""Files and folders that are looked at for logs, in one folder and all below it."""
MOST_EXPANSION = 1000
"""Times, where that matters; of a file that repeats one line for ever, the beginning says it all."""
EXPANSION_MATTERS_BYTES = 256 * 1024 * 1024


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes | None: ...


class Unpacking(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...


DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
"""What unpacking raises of a file that is cut off or damaged."""


def _gzip(raw: BinaryIO) -> Unpacking:
    return gzip.GzipFile(fileobj=raw)


def _bzip2(raw: BinaryIO) -> Unpacking:
    return bz2.BZ2File(raw)


def _xz(raw: BinaryIO) -> Unpacking:
    return lzma.LZMAFile(raw)


def _zstandard(raw: BinaryIO) -> Unpacking:
    """Python's own since 3.14."""
    try:
        return cast(Unpacking, importlib.import_module("compression.zstd").ZstdFile(raw))
    except ImportError:
        raise NotALog("this Python cannot unpack it; zstd -dc FILE | gpudoctor explain - reads it") from None


OPENERS: tuple[tuple[bytes, Callable[[BinaryIO], Unpacking]], ...] = (
    (b"\x1f\x8b", _gzip),
    (b"BZh", _bzip2),
    (b"\xfd7zXZ\x00", _xz),
    (b"\x28\xb5\x2f\xfd", _zstandard),
)
"""By their first bytes."""


class NotALog(Exception):
    """Why a file cannot be read as a log."""


class Block(Struct):
    """Whole lines of a log, without colours and zero bytes; "\\r\\n" is "\\n"."""

    text: bytes
    ahead: bytes
    """What follows, as far as it was read; it comes again as the next block's text."""
    first_line: int
    """Number of the first line, from 1."""
    raw_bytes: int
    """How much of the file this was."""
    straight: Straight | None = None
    """Of a paste that was not as its program wrote it: `text` is, and this tells its lines' numbers."""


MOST_REFUSED = 20
"""Folders that may not be read, of which each is named."""


def find_logs(paths: list[str]) -> tuple[list[str], dict[str, str]]:
    """Files to read, folders resolved to the logs in them; and what cannot be read, with the reason.

    Of a folder, what torchrun's --log-dir lays there is taken (stdout.log, stderr.log in attempt_N/RANK), and files
    that are named as logs.
    """
    found: list[str] = []
    unreadable: dict[str, str] = {}
    for path in paths:
        if path != "-" and Path(path).is_dir():
            logs = _logs_in(path, unreadable)
            found += logs
            if not logs and not unreadable:
                unreadable[path] = "a folder without *.log, *.out, *.err or *.txt files"
        else:
            found.append(path)
    return list(dict.fromkeys(found)), unreadable


def _logs_in(folder: str, unreadable: dict[str, str]) -> list[str]:
    """Folders in it that may not be read go to `unreadable`."""

    def refused(error: OSError) -> None:
        if len(unreadable) < MOST_REFUSED:
            unreadable[os.path.normpath(error.filename)] = (error.strerror or str(error)).lower()

    logs: list[str] = []
    seen = 0
    for place, folders, names in os.walk(folder, onerror=refused):
        seen += len(folders) + len(names)
        if seen > MOST_NAMES or len(logs) >= MOST_FILES:
            break
        folders.sort()
        for name in sorted(names):
            base = name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz").removesuffix(".zst")
            if base.endswith((".log", ".out", ".err", ".txt")) and len(logs) < MOST_FILES:
                if not os.path.isfile(os.path.join(place, name)):  # noqa: PTH113, PTH118 - never raises; a FIFO in the place of a log would be waited for
                    continue
                logs.append(str(Path(place) / name))
    return logs


def open_log(path: str) -> Stream:
    """A file or pipe. Raises `NotALog`."""
    try:
        status = os.stat(path)  # noqa: PTH116 - accepts what Path refuses: a name with a NUL raises ValueError alike
        if stat.S_ISDIR(status.st_mode):
            raise NotALog("a folder")
        if stat.S_ISBLK(status.st_mode):
            raise NotALog("a disk and no log")
        if stat.S_ISSOCK(status.st_mode):
            raise NotALog("a socket and no log")
        if stat.S_ISCHR(status.st_mode):
            hint = "; dmesg | gpudoctor explain - reads it" if path == "/dev/kmsg" else ""
            raise NotALog(f"a device and no log{hint}")
        return Stream(path)
    except bounded.Refused as error:
        raise NotALog(str(error)) from None
    except FileNotFoundError:
        raise NotALog("there is no such file") from None
    except (OSError, ValueError) as error:
        raise NotALog(getattr(error, "strerror", None) or str(error)) from None


def blocks(raw: Readable) -> Iterator[Block]:
    """The blocks of a log, in order. Raises `NotALog` where it is none, or, behind what was read, is cut."""
    buffer, line, total, at_end = b"", 1, 0, False
    broken: NotALog | None = None
    chunks = _chunks(raw)

    def following() -> tuple[bytes | None, int]:
        nonlocal broken
        try:
            return next(chunks, (None, 0))
        except NotALog as error:
            broken = error
            return None, 0

    while not at_end:
        while len(buffer) < BLOCK + AHEAD:
            chunk, size = following()
            total += size
            if chunk is None:
                at_end = True
                break
            buffer += chunk
        if not buffer:
            if total and line == 1:  # zero bytes and nothing else: it is not empty
                yield Block(text=b"", ahead=b"", first_line=line, raw_bytes=total)
            break
        cut = len(buffer) if at_end else _end_of_line(buffer)
        if cut == 0:  # one line that is longer than the buffer
            if len(buffer) < LONGEST_LINE:
                more, size = following()
                total += size
                at_end = more is None
                buffer += more or b""
                cut = len(buffer) if at_end else 0
                if not cut:
                    continue
            else:
                cut = len(buffer)
        text, buffer = buffer[:cut], buffer[cut:]
        pasted = straight(text) if at_end and line == 1 and not buffer else None
        shown = pasted.text if pasted else text
        yield Block(text=shown, ahead=buffer[:AHEAD], first_line=line, raw_bytes=total, straight=pasted)
        total = 0
        line += text.count(b"\n")
    if broken is not None:
        raise broken


def _end_of_line(buffer: bytes) -> int:
    """Where to cut: behind the last line that leaves `AHEAD` bytes; 0 when there is none."""
    cut = buffer.rfind(b"\n", 0, max(1, len(buffer) - AHEAD)) + 1
    return cut or buffer.rfind(b"\n") + 1


def _chunks(raw: Readable) -> Iterator[tuple[bytes, int]]:
    """Cleaned text and how many bytes of the file it was."""
    first = _read(raw, 4096)
    opener = next((opener for magic, opener in OPENERS if first.startswith(magic)), None)
    source: Readable = raw
    if opener is not None:
        packed = Rejoined(first, raw)
        source, first = _Unpacked(opener(cast(BinaryIO, packed)), packed), b""  # read() is all that they call
    decode = _decoder(first or _read(source, 0))
    pending_cr = b""
    held = b""
    chunk = first or _read(source, BLOCK)
    if opener is not None:
        decode = _decoder(chunk)
    if kind := kind_of(chunk):
        raise NotALog(f"no log: it is {kind}")
    if _is_binary(chunk) and decode is None:
        raise NotALog("no text: it is a binary file")
    if START.encode() in chunk[:WITHIN]:  # old logs of the kernel's stand in it beside the state of now
        raise NotALog("a report of nvidia-bug-report.sh, of a machine and no job: gpudoctor check --from FILE reads it")
    while chunk:
        size = len(chunk)
        text = chunk if decode is None else decode(chunk)
        text = held + pending_cr + text
        held, pending_cr = b"", b""
        if text.endswith(b"\r"):  # its "\n" may come with the next chunk
            text, pending_cr = text[:-1], b"\r"
        if b"\x1b" in text:
            escape = text.rfind(b"\x1b", -64)
            if escape >= 0 and not COLORS.match(text, escape):  # cut in two by the end of the chunk
                text, held = text[:escape], text[escape:]
                held, pending_cr = held + pending_cr, b""
            text = COLORS.sub(b"", text)
        yield _plain(text), size
        chunk = _read(source, BLOCK)
    if held or pending_cr:
        yield _plain(held + pending_cr), 0


def _plain(text: bytes) -> bytes:
    if b"\0" in text:
        text = text.translate(None, b"\0")
    if REPEATED_MARK in text:
        text = REPEATED.sub(b"", text)
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text


class _Unpacked:
    """What comes out of a compressed file, as long as that is in proportion to what goes in, and up to a cut."""

    def __init__(self, source: "Unpacking", packed: "Rejoined") -> None:
        self._source, self._packed = source, packed
        self._bytes = 0
        self._cut: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        piece = self._whole(size)
        self._bytes += len(piece)
        if self._bytes > max(MOST_EXPANSION * self._packed.bytes, EXPANSION_MATTERS_BYTES):
            raise NotALog(
                f"read as far as {self._bytes >> 20} MiB: it unpacks to more than {MOST_EXPANSION} times its size"
            )
        return piece

    def _whole(self, size: int) -> bytes:
        """As much as was asked for; of a file that is cut what stands before the cut, and then why there is no more."""
        pieces, left = list[bytes](), size
        while left and self._cut is None:
            try:
                piece = self._source.read1(left)
            except (OSError, ValueError, *DAMAGE) as error:
                self._cut = error
                break
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        if self._cut is not None and not pieces:
            raise self._cut
        return b"".join(pieces)


class Rejoined:
    """What was read of a pipe to look at it, and then the rest."""

    def __init__(self, first: bytes, rest: Readable) -> None:
        self._first, self._rest = first, rest
        self.bytes = len(first)

    def read(self, size: int = -1) -> bytes:
        if self._first:
            part, self._first = (self._first, b"") if size < 0 else (self._first[:size], self._first[size:])
            return part
        piece = self._rest.read(size) or b""
        self.bytes += len(piece)
        return piece

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return False


def _read(source: Readable, size: int) -> bytes:
    """What is there, at most `size` bytes. Raises `NotALog`."""
    if size == 0:
        return b""
    try:
        return source.read(size) or b""
    except bounded.Refused as error:
        raise NotALog(str(error)) from None
    except MemoryError:
        raise NotALog("unpacking it takes more memory than is spent on it") from None
    except DAMAGE as error:
        raise NotALog(f"packed, and cut off or damaged: {error}") from None
    except (OSError, ValueError) as error:
        raise NotALog(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None


def _decoder(sample: bytes) -> Callable[[bytes], bytes] | None:
    """What turns UTF-16 (the redirections of Windows PowerShell) into UTF-8; None where that is not needed."""
    codec = ""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        codec = "utf-16"
    elif len(sample) >= 64:  # our rule of thumb: of Latin text in UTF-16 nearly every other byte is zero
        half = len(sample) // 2
        odd, even = sample[1::2].count(0), sample[0::2].count(0)
        if odd > 0.9 * half and even < 0.1 * half:
            codec = "utf-16-le"
        elif even > 0.9 * half and odd < 0.1 * half:
            codec = "utf-16-be"
    if not codec:
        return None
    decoder = codecs.getincrementaldecoder(codec)("replace")
    return lambda chunk: decoder.decode(chunk).encode("utf-8", "replace")


CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\x0b\x0c\x1b\x08\x00\x07")


def _is_binary(sample: bytes) -> bool:
    """More than a twentieth of control characters that no log has (our rule of thumb); random bytes have a twelfth.

    Zero bytes do not count: a log that was cut to nothing while it was written begins with them.
    """
    without = sample.replace(b"\0", b"")
    return len(without) >= 512 and len(without) - len(without.translate(None, CONTROLS)) > len(without) // 20
