"""Values of a followed program: Python's own where known, `OpenValue` with a key where not, `Thing` for objects."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

Value = Any
"""None, a bool, a number, text, a list, a tuple or a dict of values; OpenValue; Thing; FollowedFunction."""
Names = dict[str, Value]
LARGEST = 1 << 40


class CourseTooLong(Exception):
    """The program is not followed to its end."""


class OpenValue(Struct, frozen=True):
    """Nobody knows. Two ranks with the same key have the same value, for all that the text tells."""

    key: int
    is_own: bool = False
    """Made of what this rank alone has drawn or computed from its part of the data."""
    is_number: bool = False
    """A number of Python's, as `.item()` gives it."""


class Thing(Struct, eq=False):
    """An object: a model, a group, parsed arguments, an instance of the program's own class."""

    kind: str
    key: int
    fields: Names = field(default_factory=dict)
    node: ast.AST | None = None


class FollowedFunction(Struct, frozen=True, eq=False):
    """A function of the text, with the names around it; of a method its instance too."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    outer: tuple[Names, ...]
    own: Value = None


class ClassOf(Struct, frozen=True, eq=False):
    node: ast.ClassDef
    outer: tuple[Names, ...]


def prefix_of(model: Thing) -> str:
    """How the names of its state_dict begin."""
    inner = model.fields.get("inner")
    if model.kind == "ddp":
        return "module." + (prefix_of(inner) if isinstance(inner, Thing) else "")
    return "_orig_mod." if model.fields.get("compiled") is True else ""


def set_of(node: ast.AST, items: list[Value]) -> Thing:
    """A set; of texts, each process goes through it in another order."""
    of_texts = len(items) > 1 and all(isinstance(each, str) for each in items)
    return Thing("set", hash(("set", key_of(items))), {"items": items, "of texts": of_texts}, node)


def key_of(value: Value) -> int:
    if isinstance(value, (OpenValue, Thing)):
        return value.key
    if isinstance(value, (FollowedFunction, ClassOf)):
        return id(value.node)
    if isinstance(value, (list, tuple)):
        return hash(("items", *map(key_of, value)))
    if isinstance(value, dict):
        return hash(("pairs", *((str(name), key_of(each)) for name, each in value.items())))
    if isinstance(value, slice):
        return hash(("slice", value.start, value.stop, value.step))
    return hash((type(value).__name__, value))


def unknown(*parts: Any) -> OpenValue:
    """Made of these parts: AST nodes by where they stand, values by their keys."""
    return OpenValue(
        hash(tuple(id(each) if isinstance(each, ast.AST) else key_of(each) for each in parts)),
        any(is_own(each) for each in parts if not isinstance(each, ast.AST)),
    )


def is_own(value: Value) -> bool:
    if isinstance(value, OpenValue):
        return value.is_own
    if isinstance(value, Thing):
        return value.fields.get("own") is True
    return isinstance(value, (list, tuple)) and any(map(is_own, value))


def is_nothing(value: Value) -> bool:
    """What a collective gives back that works in place."""
    return isinstance(value, Thing) and value.kind == "nothing"


def gives_own(value: Value) -> bool:
    """A loader or sampler whose items are those of this rank alone."""
    return isinstance(value, Thing) and value.fields.get("sharded") is True


def number(value: Value) -> Value:
    return OpenValue(value.key, value.is_own, True) if isinstance(value, OpenValue) else value


def shared(value: OpenValue) -> OpenValue:
    """The same, and nothing is known of whose it is."""
    return OpenValue(value.key) if value.is_own else value


def is_known(value: Value) -> bool:
    """A plain value, all of it."""
    if isinstance(value, (list, tuple)):
        return all(map(is_known, value))
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return value is None or isinstance(value, (bool, int, float, str))


def truth(value: Value) -> bool | None:
    """Whether it counts as true; None where nobody knows."""
    if isinstance(value, OpenValue):
        return None
    if isinstance(value, (Thing, FollowedFunction, ClassOf)):
        if isinstance(value, Thing) and value.kind == "nothing":
            return False
        return None if isinstance(value, Thing) and value.kind in ("tensor", "instance", "moved") else True
    return bool(value)


def cloned(value: Value, done: dict[int, Value] | None = None) -> Value:
    """For another process: what it changes is its own."""
    done = {} if done is None else done
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, Thing):
        copy = Thing(value.kind, value.key, {}, value.node)
        done[id(value)] = copy
        copy.fields = {name: cloned(each, done) for name, each in value.fields.items()}
        return copy
    if isinstance(value, (list, tuple)):
        return type(value)(cloned(each, done) for each in value)
    if isinstance(value, Mapping):
        return {name: cloned(each, done) for name, each in value.items()}
    return value


def cast(kind: str, value: Value) -> Value:
    """int("3"), str(3), float, bool; OpenValue where it cannot be told."""
    makers: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str, "bool": bool}
    if not is_known(value) or isinstance(value, (list, tuple, dict)) or (value is None and kind != "bool"):
        return unknown(kind, value)
    try:
        made = makers[kind](value)
    except (ValueError, OverflowError, TypeError):
        return unknown(kind, value)
    return made if not isinstance(made, int) or abs(made) < LARGEST else unknown(kind, value)


def device_number(value: Value) -> int | str | None:
    """3 of 3, "cuda:3" and a device made of them; "cuda" of the current one; "cpu"; None where nobody knows."""
    if isinstance(value, Thing) and value.kind == "device":
        return device_number(value.fields.get("index"))
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if value.startswith("cuda:") and value[5:].isdecimal() and len(value) < 9:
        return int(value[5:])
    return value if value in ("cuda", "cpu") else None
