"""`--diff` and `--write`: the corrected files as a unified diff, or written in the place of what was read."""

import contextlib
import difflib
import os
import stat
import tempfile
from collections.abc import Iterator

from gpudoctor import bounded
from gpudoctor.errors import BadInput
from gpudoctor.lint.starts import SourceFile

BOM = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def unified(file: str, before: str, after: str) -> Iterator[str]:
    """Lines with their ends, as `git apply` and `patch -p1` take them."""
    name = os.path.normpath(file)
    plain = not os.path.isabs(name) and not name.startswith("..")  # noqa: PTH117
    first, second = (f"a/{name}", f"b/{name}") if plain else (name, name)
    lines = difflib.unified_diff(_lines(before), _lines(after), first, second)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """As diff counts them: str.splitlines knows ends that are none there."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def rewrite(source: SourceFile, text: str, folder: str | None = None) -> None:
    """Put a corrected text in the place of a file, whole or not at all, with its mode and owner. Raises `BadInput`.

    `folder`: in which the file was found; else it is its own. A link out of it is not written through.
    """
    file = source.file
    place = os.path.realpath(file)
    tree = os.path.realpath(folder or os.path.dirname(os.path.abspath(file)))  # noqa: PTH100, PTH120
    if os.path.commonpath([place, tree]) != tree:
        raise BadInput(f"{file}: not written: it is a link out of {tree}, to {place}")
    temporary = ""
    try:
        descriptor = bounded.regular(place, links=False)
        with os.fdopen(descriptor, "rb") as old:
            raw, about = old.read(bounded.SCRIPT.size + 1), os.fstat(old.fileno())
        mark = BOM.get(source.codec, b"")
        if raw != mark + source.text.encode(source.codec, "surrogatepass"):
            raise BadInput(f"{file}: not written: it is no more what was read, or no text that can be written again")
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(place), prefix=f".{os.path.basename(place)}.")  # noqa: PTH119, PTH120
        with os.fdopen(descriptor, "wb") as new:
            new.write(mark + text.encode(source.codec, "surrogatepass"))
            made = os.fstat(new.fileno())
            if (made.st_uid, made.st_gid) != (about.st_uid, about.st_gid):
                os.fchown(new.fileno(), about.st_uid, about.st_gid)  # root may; anybody else keeps his hands off
            os.fchmod(new.fileno(), stat.S_IMODE(about.st_mode))
            new.flush()
            os.fsync(new.fileno())
        os.replace(temporary, place)  # noqa: PTH105
    except bounded.Refused as error:
        raise BadInput(f"{file}: not written: {error}") from None
    except UnicodeEncodeError:
        raise BadInput(f"{file}: not written: the correction has characters that its encoding lacks") from None
    except OSError as error:
        raise BadInput(f"{file}: not written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - gone already when all went well
