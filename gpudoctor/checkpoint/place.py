"""Whether a clean copy may go where it shall."""

from pathlib import Path

from gpudoctor.checkpoint.unreadable import BadFile, printable
from gpudoctor.lacking import unwritable


def check_place(file: str, out: str) -> None:
    """Refuse a place for the copy before anything slow is done. Raises `BadFile` with the option's name."""
    place = Path(out)
    try:
        if place.is_dir():
            raise BadFile(f"--fix {printable(out, 300)}: is a folder; name a file in it")
        folder = place.absolute().parent
        if not folder.is_dir():
            raise BadFile(f"--fix {printable(out, 300)}: the folder {printable(str(folder), 300)} does not exist")
        if place.exists() and Path(file).exists() and place.samefile(file):
            raise BadFile(
                f"--fix {printable(out, 300)}: is the input itself, which is never written to; name another file"
            )
        if place.exists() or place.is_symlink():
            raise BadFile(f"--fix {printable(out, 300)}: exists already; name a new file, or move it away")
        if reason := unwritable(folder):
            raise BadFile(f"--fix {printable(out, 300)}: {reason} in {printable(str(folder), 300)}")
    except (OSError, ValueError) as error:
        raise BadFile(f"--fix {printable(out, 300)}: {getattr(error, 'strerror', None) or error}") from None
