"""One rank's way through a program: the calls that a contract of knowledge/api_contracts.py speaks of are noted."""

import ast
import re
from functools import cache, lru_cache

from msgspec import Struct

from gpudoctor.knowledge.api_contracts import COLLECTIVE, CONTRACTS, MAKES
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.attributes import Attributes
from gpudoctor.lint.courses.values import FollowedFunction, Names, OpenValue, Thing, Value, is_own, key_of, unknown

_BATCHES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_GRADIENT = lazy_re(r"\.grad(?:\.data)?$")
MAKES_THE_GROUP = r"accelerate\.(?:Accelerator|PartialState)|deepspeed\.init_distributed"
_PATTERNS = [
    each for row in CONTRACTS for each in (row.call, row.other)
    if (each and row.clause != "argument") or each == row.call
]  # fmt: skip
_SPOKEN_OF = lazy_re("|".join(f"(?:{each})" for each in (MAKES_THE_GROUP, *_PATTERNS)))


@cache
def pattern_of(pattern: str) -> re.Pattern[str]:
    """Of a contract, compiled: `re` keeps no more than 512 of all that are asked."""
    return re.compile(pattern)


@lru_cache(maxsize=8192)
def fits(pattern: str, name: str) -> bool:
    """Of a contract's pattern and a whole name: few of either, asked again and again."""
    return pattern_of(pattern).fullmatch(name) is not None


@lru_cache(maxsize=2048)
def _is_spoken_of(name: str) -> bool:
    return _SPOKEN_OF.fullmatch(name) is not None


class SeenCall(Struct, frozen=True, eq=False):
    """A call of a rank, by the name that contracts know."""

    name: str
    object: int
    """The key of what it is a method of; 0 of a function."""
    given: frozenset[str]
    """What its arguments and its object are."""
    made: ast.AST | None = None
    """Where its object is made."""


class ContractCalls(Attributes):
    def note(
        self, whole: str, node: ast.Call, holder: Value, function: Value, given: list[Value], named: Names
    ) -> None:
        """Kept by its name among the contracts; what all ranks must come to is met."""
        name = whole
        if isinstance(holder, OpenValue) and isinstance(node.func, ast.Attribute) and not whole:
            name = f"value.{node.func.attr}"
        if isinstance(holder, str) and isinstance(node.func, ast.Attribute) and node.func.attr == "mkdir":  # a path
            self.do("folder", node, holder, named.get("exist_ok", False))
        subject = function if isinstance(function, Thing) and function.kind != "environ" else holder
        if isinstance(function, Thing):
            name = f"{function.kind}()"
        elif isinstance(holder, Thing) and isinstance(node.func, ast.Attribute):
            is_inside = holder.fields.get(" wrapped") is True
            name = f"{'wrapped' if is_inside else holder.kind}.{node.func.attr}"
            for pattern, call in COLLECTIVE.items():
                if fits(pattern, name):
                    # Join shadows a step, as it does a forward.
                    self.meet(call.format(method=node.func.attr), node, is_weak=node.func.attr == "step")
        if name == "torch.distributed.all_reduce" and node.args and _GRADIENT.search(ast.unparse(node.args[0])):
            self.do("called", node, SeenCall("gradients.all_reduce", 0, frozenset()))
        if name and _is_spoken_of(name):
            marks = {mark for each in (*given, *named.values()) for mark in _marks(each)}
            if not node.args and not node.keywords:
                marks.add("nothing")
            if isinstance(subject, Thing) and subject.kind == "loader" and "plain" in subject.fields:
                marks.add("plain loader")
            if isinstance(subject, Thing) and type(steps := subject.fields.get("accumulates")) is int and steps > 1:
                marks.add("accumulates")
            if not self.has_grad and "tuple" in marks:
                marks.add("predictions without gradient")
            key, made = (subject.key, subject.node) if isinstance(subject, Thing) else (0, None)
            self.do("called", node, SeenCall(name, key, frozenset(marks), made))

    def compiled(self, model: Value) -> Value:
        """torch.compile gives another module, with the model below it."""
        if not isinstance(model, Thing) or model.kind not in ("model", "moved"):
            return model
        return Thing(model.kind, model.key, {**model.fields, "compiled": True, "_orig_mod": model}, model.node)

    def made(self, whole: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        """An object that contracts speak of; NotImplemented of any other."""
        if whole == "datasets.load_dataset" and named.get("streaming") is True and named.get("split") is not None:
            return Thing("stream", key_of(unknown(node)), {}, node)
        for pattern, kind in MAKES.items():
            if fits(pattern, whole):
                return Thing(kind, key_of(unknown(node)), {}, node)
        return NotImplemented


def _marks(value: Value) -> set[str]:
    marks = {"own"} if is_own(value) else set()
    if isinstance(value, Thing) and value.kind == "parameters":
        marks.add(f"parameters of {value.fields['of'].kind}")
    if isinstance(value, tuple):
        marks.add("tuple")
    if isinstance(value, dict):
        told = [each for each in map(value.get, _BATCHES) if isinstance(each, int)]
        if len(told) == len(_BATCHES) and told[0] != told[1] * told[2]:
            marks.add("whole batch")
    if isinstance(value, Thing) and value.kind == "loader" and isinstance(value.fields.get("sampler"), Thing):
        marks.add("loader of a sampler")
    if isinstance(value, FollowedFunction):
        marks.add("function of the text")
    if isinstance(value, Thing):
        marks.add(value.kind)
        if value.kind in ("ddp", "fsdp") and "name" in value.fields:
            marks.add(f"{value.kind} by hand")
        of = value.fields.get("from")
        if isinstance(of, Thing) and of.kind in ("ddp", "fsdp") and value.fields.get("device") != "cpu":
            marks.add("from wrapped")
    return marks
