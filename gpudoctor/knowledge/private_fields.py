"""What the fields of a structure are to the redactor, and where in it names, variables and command lines stand."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from gpudoctor.knowledge.environment import is_recorded
from gpudoctor.knowledge.private_names import (
    COMMAND_FIELDS,
    GID_FIELDS,
    HARMLESS_FIELDS,
    HOST_FIELDS,
    HOST_KEYED_FIELDS,
    ID_FIELDS,
    SERIAL_FIELDS,
    USER_FIELDS,
)
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Reading

Mode = Literal["text", "harmless", "user", "host", "serial", "gid", "id", "command", "environment"]
"""How the strings of a field are treated."""
FIELDS: dict[tuple[str, str], Mode] = {
    **dict.fromkeys(USER_FIELDS, "user"),
    **dict.fromkeys(HOST_FIELDS, "host"),
    **dict.fromkeys(SERIAL_FIELDS, "serial"),
    **dict.fromkeys(GID_FIELDS, "gid"),
    **dict.fromkeys(ID_FIELDS, "id"),
    **dict.fromkeys(COMMAND_FIELDS, "command"),
    ("Snapshot", "environment"): "environment",
}
"""(structure, field) -> its treatment; all others are text, or harmless."""
VARIABLE = lazy_re(r"[A-Z][A-Z0-9_]*")
"""The name of an environment variable; a mapping from such names to texts is (a part of) an environment."""


def names_of(thing: Any) -> Iterator[str]:
    """The names of interfaces and RDMA devices."""
    if isinstance(thing, Reading):
        yield from names_of(thing.value_or(None))
    elif isinstance(thing, Struct):
        if type(thing).__name__ in ("Interface", "RdmaDevice"):
            yield thing.name  # type: ignore[attr-defined]
        for name in thing.__struct_fields__:
            yield from names_of(getattr(thing, name))
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            yield from names_of(item)


def command_lines(thing: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(thing, Struct) and not isinstance(thing, Reading):
        for name in thing.__struct_fields__:
            value = getattr(thing, name)
            if (type(thing).__name__, name) in COMMAND_FIELDS and isinstance(value, tuple):
                yield value
            else:
                yield from command_lines(value)
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            yield from command_lines(item)


def variables(document: Any) -> Iterator[tuple[str, str]]:
    """Every environment variable in a structure: what is secret in some of them is so by their name."""
    if isinstance(document, Reading):
        yield from variables(document.value_or(None))
    elif isinstance(document, Struct):
        for name in document.__struct_fields__:
            yield from variables(getattr(document, name))
    elif isinstance(document, (tuple, list)):
        for item in document:
            yield from variables(item)
    elif isinstance(document, dict):
        for key, item in document.items():
            if isinstance(key, str) and isinstance(item, str):
                if VARIABLE.fullmatch(key):
                    yield key, item
            else:
                yield from variables(item)


@cache
def modes_of(structure: type[Struct]) -> dict[str, Mode]:
    """Field -> treatment."""
    harmless = HARMLESS_FIELDS.get(structure.__name__, set())
    modes: dict[str, Mode] = {}
    for field in msgspec.structs.fields(structure):
        is_harmless = field.name in harmless or _is_vocabulary(field.type)
        modes[field.name] = FIELDS.get((structure.__name__, field.name), "harmless" if is_harmless else "text")
    return modes


def _is_vocabulary(type_: Any) -> bool:
    """Whether the strings of a type are words of our own."""
    if get_origin(type_) is Literal:
        return True
    return any(_is_vocabulary(part) for part in get_args(type_))


def strings(thing: Any, mode: Mode) -> Iterator[tuple[Mode, str]]:
    """Every string in a structure with its treatment, in a fixed order."""
    if isinstance(thing, str):
        yield mode, thing
    elif isinstance(thing, Reading):
        yield "text", thing.source
        yield from strings(thing.found if thing.is_read else thing.missing, mode if thing.is_read else "text")
    elif isinstance(thing, Struct):
        modes = modes_of(type(thing))
        for name in thing.__struct_fields__:
            if (type(thing).__name__, name) in HOST_KEYED_FIELDS:
                yield from (("host", key) for key in getattr(thing, name))
                yield from strings(tuple(getattr(thing, name).values()), "text")
            else:
                yield from strings(getattr(thing, name), modes[name])
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            yield from strings(item, mode)
    elif isinstance(thing, dict):
        for key, item in thing.items():
            if is_kept(key, item, mode):
                yield from strings(item, mode)


def is_kept(key: Any, item: Any, mode: Mode) -> bool:
    """Whether an entry of a mapping may stay: of an environment, only what is on the list of what is recorded."""
    is_variable = mode == "environment" or (isinstance(item, str) and VARIABLE.fullmatch(key) is not None)
    return not is_variable or is_recorded(key)
