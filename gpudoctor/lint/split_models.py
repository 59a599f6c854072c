"""Models whose parts a program places on several GPUs by hand, as far as the text tells where each part stands."""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, constant
from gpudoctor.lint.python_text import walked

_MOVES = lazy_re(r"\.(?:to|cuda)\(")
GPU = lazy_re(r"cuda:([0-9]{1,2})")
DEEPEST = 60
HOLDS_A_DEVICE = lazy_re(r"(?i)dev|gpu|cuda")
"""In the names of parameters: what stands there is told by the caller, and two of them are two devices."""
Names = Mapping[str, str]
"""What a name in a class means, "dev0" or "self.dev0": "cuda:0", or the parameter of __init__ that holds it."""


class SplitModel(Struct, frozen=True):
    """A class with parts on two GPUs or more."""

    name: str
    node: ast.ClassDef
    parts: dict[str, str]
    """Attribute -> "cuda:1", or the parameter that holds its device."""
    names: Names = {}

    def spelled(self, device: str) -> str:
        """A device as forward can write it: "cuda:1" in quotes, self.dev1, or that of the part's parameters."""
        if GPU.fullmatch(device):
            return f'"{device}"'
        own = next((name for name, meant in self.names.items() if meant == device and name.startswith("self.")), "")
        part = next((part for part, on in self.parts.items() if on == device), "")
        return own or f"next(self.{part}.parameters()).device"


class WrongHalf(Struct, frozen=True):
    """A part that is called with something that is on another GPU."""

    call: ast.Call
    part: str
    on: str
    value: ast.expr
    comes_from: str


@lru_cache(maxsize=16)  # asked for each start of a program, and by several rules
def split_models(code: PythonCode) -> tuple[SplitModel, ...]:
    """Every class that places its parts on several GPUs."""
    return tuple(_found(code))


def _found(code: PythonCode) -> Iterator[SplitModel]:
    if not _MOVES.search(code.text):
        return
    outside = device_names(code.tree.body)
    for node in code.nodes:
        if not isinstance(node, ast.ClassDef):
            continue
        names = _names_of(node, outside)
        parts: dict[str, str] = {}
        for each in (inner for body in node.body if isinstance(body, FUNCTIONS) for inner in walked(body)):
            name, device = _placed(each, names)
            if name:
                parts[name] = device if parts.get(name, device) == device else ""
        known = {name: device for name, device in parts.items() if device}
        if len(set(known.values())) > 1 and len(known) == len(parts):
            yield SplitModel(node.name, node, known, names)


def device_names(body: list[ast.stmt]) -> dict[str, str]:
    """`dev0 = torch.device("cuda:0")`, `dev1 = "cuda:1"` of a module; what is assigned twice is not told."""
    devices: dict[str, str] = {}
    for statement in body:
        for node in walked(statement):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                device = device_of(node.value, {})
                devices[name] = device if devices.get(name, device) == device else ""
    return {name: device for name, device in devices.items() if device}


def _names_of(node: ast.ClassDef, outside: Names) -> dict[str, str]:
    """The same in a class: what __init__ is given, and what it keeps of that."""
    names = dict(outside)
    start = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if start is None:
        return names
    given = [arg.arg for arg in (*start.args.args[1:], *start.args.kwonlyargs)]
    names.update((name, name if HOLDS_A_DEVICE.search(name) else "") for name in given)
    kept: dict[str, str] = {}
    for each in walked(node):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name) and target.id in given:
                    names[target.id] = ""
                if own := _attribute(target):
                    device = device_of(each.value, names)
                    kept[own] = device if kept.get(own, device) == device else ""
    names.update((f"self.{name}", device) for name, device in kept.items())
    return {name: device for name, device in names.items() if device}


def _placed(node: ast.AST, names: Names) -> tuple[str, str]:
    """Attribute and GPU of `self.part = Layer().to("cuda:1")` and of `self.part.cuda(1)`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        name = _attribute(node.targets[0])
        return (name, device) if name and (device := moved_to(node.value, names)) else ("", "")
    if isinstance(node, ast.Expr) and (device := moved_to(node.value, names)):
        assert isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
        return _attribute(node.value.func.value), device
    return "", ""


def _attribute(node: ast.expr) -> str:
    """part of self.part."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else ""


def moved_to(node: ast.expr, names: Names) -> str:
    """ "cuda:1" of x.to("cuda:1"), x.cuda(1), x.to(1), x.to(dev1); empty of anything else."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr not in ("to", "cuda")
    ):
        return ""
    first = argument(node, "device", 0)
    if node.func.attr == "cuda" and first is None and not node.keywords:
        return "cuda:0"
    return device_of(first, names) if first is not None else ""


def device_of(node: ast.expr, names: Names) -> str:
    """The device that an expression is."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        return names.get(f"self.{_attribute(node)}", "")
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return device_of(node.args[0], names) if called == "device" and len(node.args) == 1 else ""
    value = constant(node)
    if type(value) is int and 0 <= value < 64:
        return f"cuda:{value}"
    match = GPU.fullmatch(value) if isinstance(value, str) else None
    if match is None and value == "cuda":
        return "cuda:0"
    return f"cuda:{int(match[1])}" if match is not None else ""


def comparable(one: str, other: str) -> bool:
    """Whether it is known that two devices are the same or not: two numbers, or two names of one call."""
    return (GPU.fullmatch(one) is None) == (GPU.fullmatch(other) is None)


def wrong_halves(model: SplitModel) -> Iterator[WrongHalf]:
    """Of its forward, in straight lines: parts that are given what certainly stands on another GPU."""
    yield from _followed(model)[0]


def output_of(model: SplitModel) -> str:
    """The GPU on which forward's result stands; empty where that is not certain."""
    returned = _followed(model)[1]
    return returned[0] if len(set(returned)) == 1 else ""


def _followed(model: SplitModel) -> tuple[list[WrongHalf], list[str]]:
    """What forward calls with something from another GPU, and where each of its results stands."""
    every: list[WrongHalf] = []
    returned: list[str] = []
    forward = next(
        (node for node in model.node.body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None
    )
    if forward is None:
        return every, returned
    places: dict[str, str] = {}
    for statement in forward.body:
        if not isinstance(statement, (ast.Assign, ast.Return, ast.Expr)):
            returned += [""] * any(isinstance(node, ast.Return) for node in walked(statement))
            for node in walked(statement):  # whatever is bound below a condition is not followed
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    places.pop(node.id, None)
            continue
        if statement.value is None:
            continue
        halves: list[WrongHalf] = []
        place = _place(model, statement.value, places, halves, 0)
        every += halves
        if isinstance(statement, ast.Return):
            returned.append(place)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and place:
                    places[target.id] = place
                else:
                    for node in walked(target):
                        if isinstance(node, ast.Name):
                            places.pop(node.id, None)
    return every, returned


_KEEPS = frozenset({"relu", "view", "flatten", "reshape", "squeeze", "unsqueeze", "tanh", "sigmoid", "gelu", "dropout",
                    "softmax", "log_softmax", "max_pool2d", "contiguous", "permute", "transpose", "size"})  # fmt: skip
"""Functions of a tensor whose result stays where it was."""


def _place(model: SplitModel, node: ast.expr, places: dict[str, str], halves: list[WrongHalf], depth: int) -> str:
    """The GPU on which the value of an expression stands; empty where it is not told."""
    if depth > DEEPEST:
        return ""
    if isinstance(node, ast.Name):
        return places.get(node.id, "")
    if not isinstance(node, ast.Call):
        return ""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if device := moved_to(node, model.names):
        if inner is not None:
            _place(model, inner, places, halves, depth + 1)
        return device
    part = _attribute(node.func)
    if part in model.parts:
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
            there = _place(model, node.args[0], places, halves, depth + 1)
            if there and there != model.parts[part] and comparable(there, model.parts[part]):
                halves.append(WrongHalf(node, part, model.parts[part], node.args[0], there))
        return model.parts[part]
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _KEEPS or inner is None:
        return ""
    subject = node.args[0] if isinstance(inner, ast.Name) and inner.id in ("F", "torch") and node.args else inner
    return _place(model, subject, places, halves, depth + 1)
