"""Where the state dict of the model is in a checkpoint, and what else lies there."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpudoctor.checkpoint.report import LARGEST, Part
from gpudoctor.checkpoint.unreadable import BadFile, printable, quoted
from gpudoctor.checkpoint.values import Name, Object, Tensor
from gpudoctor.checkpoint.walk import tensors
from gpudoctor.read.pickled import Long

KNOWN = ("", "state_dict", "model_state_dict", "model", "module", "net", "network", "model_state", "weights", "params")
"""Keys under which trainings save a model, the usual ones first."""
AVERAGES = ("ema", "averaged", "shadow", "swa")
MOST_DEPTH = 4
MOST_PARTS = 200
MOST_MODULES = 1_000_000
VALUE_WIDTH = 60
LONGEST_PREFIX = 8192
"""Characters of all names that lead to a tensor; real ones have up to 200."""


@dataclass
class StateDict:
    """Tensors by name, and where they lie in the file."""

    key: str
    """Code: `["model"]`; empty: the file itself."""
    last: str
    """The last key."""
    tensors: dict[str, Tensor]
    others: dict[str, Any] = field(default_factory=dict)
    """What lies between the tensors and is none: extra state, counters."""
    what: str = "state dict"

    @property
    def size(self) -> int:
        return sum(tensor.elements * tensor.item_bytes for tensor in self.tensors.values())

    @property
    def is_average(self) -> bool:
        return any(word in self.key.lower() for word in AVERAGES)


def state_dicts(root: Any) -> list[StateDict]:
    """All of them, the model's first."""
    dicts = list(_candidates(root, "", "", 0, set()))
    dicts.sort(key=lambda state_dict: (state_dict.is_average, _rank(state_dict), -state_dict.size))
    return dicts


def _rank(state_dict: StateDict) -> int:
    return KNOWN.index(state_dict.last) if state_dict.last in KNOWN else len(KNOWN)


def _candidates(value: Any, key: str, last: str, depth: int, seen: set[int]) -> Iterator[StateDict]:
    if depth > MOST_DEPTH or id(value) in seen or type(value) not in (dict, list, tuple, Object):
        return
    seen.add(id(value))
    if type(value) is Object:
        names = module_tensors(value)
        if names:
            yield StateDict(key, last, names, what="module object")
        elif value.items:
            yield from _candidates(value.items, key, last, depth, seen)
        return
    if type(value) is dict:
        if is_optimizer(value):
            return
        if is_state_dict(value):
            mine = {str(name): tensor for name, tensor in value.items() if type(tensor) is Tensor}
            others = {str(name): item for name, item in value.items() if type(item) is not Tensor}
            yield StateDict(key, last, mine, others)
            return
        nested = nested_tensors(value) if last in KNOWN and last else {}
        if nested:
            yield StateDict(key, last, nested, what="nested state dict")
            return
        for name, each in value.items():
            yield from _candidates(each, f"{key}[{_code(name)}]", str(name), depth + 1, seen)
        return
    for number, each in enumerate(value[:MOST_PARTS]):
        yield from _candidates(each, f"{key}[{number}]", last, depth + 1, seen)


def _code(name: Any) -> str:
    return quoted(name) if type(name) is str else repr(name)


def is_state_dict(value: dict[Any, Any]) -> bool:
    """Names to tensors, with at most some values between them that hold no tensors."""
    if not all(type(name) is str for name in value):
        return False
    count = sum(type(item) is Tensor for item in value.values())
    if not count or count * 2 < len(value):
        return False
    for name, each in value.items():
        if type(each) in (dict, list, tuple, Object) and not name.endswith("_extra_state") and _holds_tensor(each):
            return False
    return True


def _holds_tensor(value: Any) -> bool:
    return next(tensors(value), None) is not None


def is_optimizer(value: Any) -> bool:
    return type(value) is dict and "param_groups" in value and "state" in value


def nested_tensors(value: dict[Any, Any]) -> dict[str, Tensor]:
    """Tensors of dictionaries in dictionaries, as Megatron saves them, by names joined with dots; empty when it has
    other things with tensors in them."""
    by_name: dict[str, Tensor] = {}
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    seen: set[int] = set()
    while waiting:
        prefix, each, depth = waiting.pop()
        if id(each) in seen or depth > 16:
            return {}
        seen.add(id(each))
        _check_length(prefix)
        for name, item in each.items():
            if type(item) is Tensor:
                by_name[f"{prefix}{name}"] = item
            elif type(item) is dict:
                if is_optimizer(item):
                    return {}
                waiting.append((f"{prefix}{name}.", item, depth + 1))
    return by_name


def _check_length(prefix: str) -> None:
    """Names are made of the names of all that they lie in: of a few long ones, told again and again, come gigabytes."""
    if len(prefix) > LONGEST_PREFIX:
        raise BadFile(f"it nests modules whose names together have more than {LONGEST_PREFIX} characters")


def module_tensors(root: Object) -> dict[str, Tensor]:
    """The state dict of a whole nn.Module that was pickled: what `state_dict` would give, without making it."""
    by_name: dict[str, Tensor] = {}
    waiting: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_MODULES:
        prefix, module = waiting.pop()
        state = module.state if type(module) is Object else None
        if type(state) is not dict or not isinstance(state.get("_modules"), dict) or id(module) in seen:
            continue
        seen.add(id(module))
        _check_length(prefix)
        passing = state.get("_non_persistent_buffers_set")
        skipped = (
            set(filter(lambda name: isinstance(name, str), passing)) if isinstance(passing, (list, tuple)) else set()
        )
        for kind in ("_parameters", "_buffers"):
            own = state.get(kind)
            for name, tensor in own.items() if isinstance(own, dict) else ():
                if type(tensor) is Tensor and not (kind == "_buffers" and name in skipped):
                    by_name[f"{prefix}{name}"] = tensor
        inner = [(f"{prefix}{name}.", each) for name, each in state["_modules"].items()]
        waiting.extend(reversed(inner))
    return by_name


def parts(root: Any, dicts: list[StateDict]) -> tuple[Part, ...]:
    """What lies in the file: state dicts, optimizers, and the values at its top."""
    found = [
        Part(
            key=printable(state_dict.key, 200),
            what=state_dict.what,
            tensors=len(state_dict.tensors),
            size_bytes=min(LARGEST, state_dict.size),
        )
        for state_dict in dicts[:MOST_PARTS]
    ]
    keys = {state_dict.key for state_dict in dicts}
    if type(root) is dict and "" not in keys:
        for name, module in list(root.items())[:MOST_PARTS]:
            key = f"[{_code(name)}]"
            if not any(known == key or known.startswith(key + "[") for known in keys):
                found.append(_part(key, module))
    elif not dicts:
        found.append(_part("", root))
    return tuple(found)


def _part(key: str, value: Any) -> Part:
    inside = list(tensors(value)) if type(value) in (dict, list, tuple, Object, Tensor) else []
    size = sum(tensor.elements * tensor.item_bytes for tensor in inside)
    first = value[0] if type(value) in (list, tuple) and value else value
    if is_optimizer(first):
        what = "optimizer" if first is value else "optimizers"
    elif inside:
        what = "tensors"
    else:
        return Part(key=printable(key, 200), what="value", value=shown(value))
    return Part(key=printable(key, 200), what=what, tensors=len(inside), size_bytes=min(LARGEST, size))


def shown(value: Any) -> str:
    """A value in a few words."""
    kind = type(value)
    if kind is str:
        return printable(value, VALUE_WIDTH)
    if kind is int:
        return str(value) if abs(value) < 1 << 64 else "a large number"
    if kind in (float, bool, type(None)):
        return str(value)
    if kind is dict:
        return f"{len(value)} entries"
    if kind is list or (kind is tuple and not isinstance(value, (Name, Long))):
        return f"{len(value)} items"
    if isinstance(value, Name):
        return printable(value.full, VALUE_WIDTH)
    if isinstance(value, Object):
        return f"object of {printable(value.of.full, VALUE_WIDTH)}"
    return "a long text"
