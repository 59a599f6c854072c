"""Why a file is no checkpoint that can be read."""

from gpudoctor.errors import BadInput


class BadFile(BadInput):
    """One line for the user: what the file is or lacks, and what to do. Nothing else is raised by the readers."""


class DamagedFile(BadFile):
    """A checkpoint that is cut off or damaged: loading it fails."""

    status = 1


class UnreadFile(BadFile):
    """Reading it failed, or was given up; what is in it is not known."""

    status = 3


DAMAGED = "its list of tensors is damaged"
TOO_MUCH_MEMORY = "listing it takes more memory than a checkpoint of its size needs: it is made to use a reader up"
SWAPPED = "--fix: somebody has put another file in the place of the copy meanwhile; name a folder of your own"


def printable(text: str, most: int = 120) -> str:
    """A name out of a foreign file, for a message."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:most])
    return shown + "..." if len(text) > most else shown


def quoted(text: str) -> str:
    """A text as Python code, whatever is in it."""
    return f'"{text}"' if text.isprintable() and '"' not in text and "\\" not in text else ascii(text)
