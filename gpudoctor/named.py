"""Names that a file or another machine may give: what msgspec holds them against as it decodes.

A name that is none ends the decoding with one line that says which field it is in and what stands there. What a user's
own environment names (MASTER_ADDR) is no such name: it may be anything, and is judged as such.
"""

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import DecodeError, Meta

_LOOKS: Final[dict[str, str]] = {}
"""What msgspec is given to match -> what it calls that."""
_PLACE = re.compile(r"`(\$[^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_MOST_SHOWN = 40
_LONGEST = 255


def _look(name: str, pattern: str) -> Meta:
    """Of names that are whole: Python's `$` alone would let a line end through, JSON Schema's knows no `\\Z`."""
    whole = rf"^(?:{pattern})$(?!\n)"
    _LOOKS[whole] = name
    return Meta(pattern=whole, max_length=_LONGEST)


HostName = Annotated[str, _look("name of a host", r"(?:[A-Za-z0-9_\[:][A-Za-z0-9_.:%\[\]-]*)?")]
"""A node as the fleet names it, a host name, an address; "" where none is known."""
Address = Annotated[str, _look("address", r"(?:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?|ip-[0-9]+)")]
"""An address of the kernel's, not a name, or the pseudonym of one; "" where there is none."""
Subnet = Annotated[str, _look("subnet", r"(?:[0-9A-Fa-f:.]*|ip-[0-9]+)/[0-9]{1,3}")]
InterfaceName = Annotated[str, _look("name of an interface", r"[A-Za-z0-9_.:@+=~#^][A-Za-z0-9_.:@+=~#^-]*")]
InterfaceOrNone = Annotated[str, _look("name of an interface", r"(?:[A-Za-z0-9_.:@+=~#^][A-Za-z0-9_.:@+=~#^-]*)?")]
DeviceName = Annotated[str, _look("name of a device", r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")]
"""Of an RDMA device, a kernel module, a device as torch names it ("cuda:0")."""
DeviceOrNone = Annotated[str, _look("name of a device", r"(?:[A-Za-z0-9_][A-Za-z0-9_.:-]*)?")]
_PCI = r"(?:[0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}(?:\.[0-7])?"
PciAddress = Annotated[str, _look("PCI address", _PCI)]
"""As sysfs or NVML writes it."""
PciOrNone = Annotated[str, _look("PCI address", f"(?:{_PCI})?")]
LoggedAddress = Annotated[str, _look("PCI address", r"[0-9A-Fa-f:.]*")]
"""As the kernel's log has it, which may be cut."""
Uuid = Annotated[str, _look("UUID", r"[A-Za-z0-9/_-]*")]
"""Of a GPU or a part of one: "GPU-...", "MIG-GPU-.../1/0"; "" where none is known."""
ModelName = Annotated[str, _look("model of a GPU", r"(?:[A-Za-z][A-Za-z0-9 ._-]*)?")]
"""As a user calls it: "H100", "RTX 4090"; "" for any."""
PackageName = Annotated[str, _look("name of a package", r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")]
Version = Annotated[str, _look("version", r"(?:[A-Za-z0-9*][A-Za-z0-9*!.+_~-]*)?")]
"""Of a package, a driver, a library: "2.13.0+cu130"; "" where none is known."""
VariableName = Annotated[str, _look("name of a variable", r"[A-Za-z_][A-Za-z0-9_]*")]
SettingName = Annotated[str, _look("name of a variable", r"[ \t]*(?:export[ \t]*)?[A-Za-z_][A-Za-z0-9_]*[ \t]*")]
"""Of a line of a settings file, also with what keeps it from being read: blanks, "export"."""
Pid = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PidOrNone = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""0: of no process, or of one that is not known."""


def told(error: DecodeError, content: Any = None) -> str:
    """Why something was not decoded, in one line: "$.nodes[0].name is no name of a host: 'x;touch y'".

    `content` is what was decoded, JSON or plain data; without it the line does not tell what stands there.
    """
    if isinstance(content, bytes):
        content = _decoded(content)
    text, place = str(error), place_of(error)
    pattern = next((look for look in _LOOKS if f"matching regex {look!r}" in text), None)
    is_long = "Expected `str` of length " in text
    if not place or (pattern is None and not is_long and "Expected `int` " not in text):
        return _shown(" ".join(text.split()), 300)
    name = f"name of at most {_LONGEST} characters" if is_long else _LOOKS[pattern] if pattern else "process id"
    here = _found(content, place)
    if "`key` in `$" in text:
        here = [key for value in here if isinstance(value, dict) for key in value]
    refused = [each for each in here if _is_refused(each, pattern)]
    return f"{place} is no {name}" + (f": {_shown(ascii(refused[0]), _MOST_SHOWN)}" if refused else "")


def _decoded(raw: bytes) -> Any:
    """None for what is no JSON as a whole: what a decoder passes over it does not look into."""
    try:
        return msgspec.json.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def place_of(error: DecodeError) -> str:
    """Where msgspec found something: "$.nodes[0].name"; "" where it does not tell."""
    place = _PLACE.search(str(error))
    return place[1] if place is not None else ""


def steps(place: str) -> list[str | int]:
    """A place's fields and positions; "..." is some value of a dict."""
    return [field or (position if position == "..." else int(position)) for field, position in _STEP.findall(place)]


def _found(content: Any, place: str) -> list[Any]:
    """What stands at a place, of every value of a dict where the place does not tell which."""
    here = [content]
    for step in steps(place):
        if step == "...":
            here = [item for value in here if isinstance(value, dict) for item in value.values()]
        elif isinstance(step, int):
            here = [each for value in here if isinstance(value, (list, tuple)) for each in value[step : step + 1]]
        else:
            here = [value[step] for value in here if isinstance(value, dict) and step in value]
    return here


def _is_refused(value: Any, pattern: str | None) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int) and pattern is None
    return len(value) > _LONGEST or (pattern is not None and re.search(pattern, value) is None)


def _shown(text: str, most: int) -> str:
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return shown if len(shown) <= most else f"{shown[:most]}..."


__all__ = [
    "Address",
    "DeviceName",
    "DeviceOrNone",
    "HostName",
    "InterfaceName",
    "InterfaceOrNone",
    "LoggedAddress",
    "PackageName",
    "PciAddress",
    "PciOrNone",
    "Pid",
    "PidOrNone",
    "SettingName",
    "Subnet",
    "Uuid",
    "VariableName",
    "Version",
    "place_of",
    "steps",
    "told",
]
