"""A tar of logs, as pods' logs are gathered: its files are read one after the other, and nothing is written."""

import contextlib
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from typing import cast

from gpudoctor import bounded
from gpudoctor.explain.lines import NotALog, Readable, Rejoined
from gpudoctor.no_text import begins_as_tar

HEAD = 64 * 1024
"""Bytes of a pipe that are looked at for a tar in them, packed by gzip or not."""
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MOST_MEMBERS = 10_000
MOST_BYTES = 64 * bounded.GIB
"""Of all members together: an archive may unpack to more than any disk holds."""


def is_tar(path: str) -> bool:
    return path.endswith(SUFFIXES)


def opened(raw: Readable) -> tuple[Readable, bool]:
    """The stream of a pipe, and whether it is a tar."""
    head = raw.read(HEAD) or b""
    inside = head
    if head.startswith(b"\x1f\x8b"):
        with contextlib.suppress(EOFError, OSError, zlib.error):
            inside = gzip.GzipFile(fileobj=io.BytesIO(head)).read1(512)
    return Rejoined(head, raw), begins_as_tar(inside)


def members(raw: Readable) -> Iterator[tuple[str, Readable]]:
    """Name and content of each regular file. Raises `NotALog` where it is none, or damaged."""
    try:
        with tarfile.open(fileobj=raw, mode="r|*") as archive:  # type: ignore[call-overload]  # read() is all that it calls
            left = MOST_BYTES
            for number, member in enumerate(archive):
                left -= member.size
                if number >= MOST_MEMBERS or left < 0:
                    raise NotALog(f"only its first {number} files were read")
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None:
                    yield member.name, cast(Readable, content)
    except bounded.Refused as error:
        raise NotALog(str(error)) from None
    except (tarfile.TarError, EOFError, zlib.error, LZMAError, OSError, ValueError, OverflowError) as error:
        raise NotALog(f"no tar, cut off or damaged: {error}") from None
    except MemoryError:
        raise NotALog("unpacking it takes more memory than is spent on it") from None
