"""Names that a file or another machine may give: what msgspec holds them against as it decodes.

A name that is none ends the decoding with one line that says which field it is in. What a user's own environment
names (MASTER_ADDR) is no such name: it may be anything, and is judged as such.
"""

import re
from typing import Annotated

from msgspec import DecodeError, Meta

PLACE = re.compile(r"`(\$[^`]*)`")

HostName = Annotated[str, Meta(pattern=r"\A(?:[A-Za-z0-9_\[:][A-Za-z0-9_.:%\[\]-]*)?\Z", max_length=255)]
"""A node as the fleet names it, a host name, an address; "" where none is known."""
Address = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?\Z", max_length=128)]
"""An address of the kernel's, not a name."""
InterfaceName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:@+=~#^][A-Za-z0-9_.:@+=~#^-]*\Z", max_length=64)]
Pid = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PidOrNone = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""0: of no process, or of one that is not known."""


def told(error: DecodeError) -> str:
    """Why something was not decoded, in one line: "`$.nodes[0].name` is no name, address or process id"."""
    text = " ".join(str(error).split())
    place = PLACE.search(text)
    if place is not None and ("matching regex" in text or "`int` " in text or "length" in text):
        return f"{place[1]} is no name, address or process id"
    return text


__all__ = ["Address", "HostName", "InterfaceName", "Pid", "PidOrNone", "told"]
