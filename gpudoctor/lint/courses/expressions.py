"""One rank's way through a program: expressions."""

import ast
import builtins
import operator
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.events import CourseCollective, CourseRound, Deed, Event
from gpudoctor.lint.courses.marked_values import MarkedValues
from gpudoctor.lint.courses.seats import Seat
from gpudoctor.lint.courses.values import (
    LARGEST,
    ClassOf,
    CourseTooLong,
    FollowedFunction,
    Names,
    OpenValue,
    Thing,
    Value,
    is_known,
    is_nothing,
    is_own,
    set_of,
    truth,
    unknown,
)
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.eq, ast.IsNot: operator.ne,
}  # fmt: skip
OF_RANKS = lazy_re(r"rank|main|master|process|primary|lead|chief|zero|local|disable")
"""Words of conditions that hold on some ranks."""
MOST_STEPS = 20_000
SCALARS = (bool, int, float, str)


class Expressions(MarkedValues):
    """State of one rank, and what its expressions are worth."""

    DEEPEST = 24
    ABSENT = object()

    def __init__(self, code: PythonCode, seat: Seat, name: str = "__main__") -> None:
        self.code, self.seat = code, seat
        self.module: Names = {"__name__": name}
        self.environment: Names = {}
        self.events: list[Event] = []
        self.deeds: list[Deed] = []
        self.spawned: list[tuple[FollowedFunction, tuple[Value, ...], ast.Call]] = []
        self.until_joined: int | None = None
        """How many of these were there when the first of them were waited for: later ones start after their end."""
        self.results: list[Value] = []
        self.yields: list[Callable[[Value], None]] = []
        self.choices: list[ast.expr] = []
        """Conditions above that are decided for this rank."""
        self.tries = 0
        """Statements that are open and may catch what is raised in them."""
        self.ended: set[int] = set()
        """Conditions above that nobody knows, where the other way ends the process."""
        self.calls_open: list[int] = []
        self.loops: list[ast.AST] = []
        """Loops that are open, those of the callers too."""
        self.conditions: list[int] = []
        self.journal: dict[tuple[int, str], tuple[Names, Value]] = {}
        self.outside: dict[int, set[str]] = {}
        self.is_sure, self.has_grad, self.wraps = True, True, False
        self.depth = self.steps = self.barriers = 0
        self.has_group = self.is_gone = False
        self.seeds: dict[int, Value] = {}
        """What the first rank has seeded with, by the call."""
        self.syncs = True
        self.sharded: set[int] = set()
        """Keys of what fully_shard has sharded."""
        self.world: int | None = None
        self.rank: int | None = None
        self.backend = ""
        self.marks, self.summed = {}, {}
        self.repeated: list[Value] = []
        """Lists that hold one thing in all places."""

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise CourseTooLong

    def inlined(self, function: FollowedFunction, given: Names, node: ast.AST) -> Value:
        raise NotImplementedError

    def called(self, node: ast.Call, frame: tuple[Names, ...]) -> Value:
        raise NotImplementedError

    def put(self, names: Names, name: str, value: Value) -> None:
        """All that is written goes by here, so that it can be taken back."""
        self.journal.setdefault((id(names), name), (names, names.get(name, self.ABSENT)))
        names[name] = value

    def do(self, what: str, node: ast.expr, value: Value = None, more: Value = None) -> None:
        condition = hash(tuple(self.conditions))
        self.deeds.append(Deed(what, node, value, more, self.is_sure, condition, self.barriers, tuple(self.loops)))

    def meet(self, call: str, node: ast.expr, group: tuple[int, ...] | None = None, *, is_weak: bool = False) -> None:
        below = next((each for each in reversed(self.choices) if OF_RANKS.search(ast.unparse(each))), None)
        self.events.append(CourseCollective(call, node, group, is_weak, below))
        self.barriers += group is None and not is_weak

    def store(self, target: ast.expr, value: Value, frame: tuple[Names, ...]) -> None:
        if isinstance(target, ast.Name):
            names = frame[0]
            if target.id in self.outside.get(id(names), ()):
                names = next((each for each in frame[1:] if target.id in each), self.module)
            self.put(names, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value if isinstance(value, (list, tuple)) and len(value) == len(target.elts) else None
            for place, each in enumerate(target.elts):
                self.store(each, items[place] if items is not None else unknown(target, place, value), frame)
        elif isinstance(target, ast.Starred):
            self.store(target.value, unknown(target, value), frame)
        elif isinstance(target, ast.Attribute):
            holder = self.value(target.value, frame)
            if isinstance(holder, Thing):
                if holder.fields.get(" wrapped") is True and isinstance(value, Thing) and value.kind == "model":
                    self.do("grown", target)
                elif holder.kind == "model" and isinstance(value, Thing) and value.kind == "model":
                    self.do("layer", target)
                if holder.kind == "lightning trainer" and target.attr == "should_stop" and value is not False:
                    self.do("stops", target)
                if (
                    holder.kind == "parameter"
                    and target.attr == "requires_grad"
                    and holder.fields["of"].kind in ("ddp", "part")
                ):
                    self.do("frozen behind", target)
                elif holder.kind == "parameter" and target.attr == "requires_grad" and value is False:
                    self.put(holder.fields["of"].fields, "frozen", True)
                self.put(holder.fields, target.attr, value)
        elif isinstance(target, ast.Subscript):
            holder, place = self.value(target.value, frame), self.value(target.slice, frame)
            if isinstance(holder, Thing) and holder.kind == "environ" and isinstance(place, str):
                self.put(self.environment, place, value)
            elif isinstance(holder, dict) and isinstance(place, str):
                self.put(holder, place, value)
            self.unmark(holder, "graphless")

    def value(self, node: ast.expr, frame: tuple[Names, ...]) -> Value:
        self.step()
        if isinstance(node, ast.Constant):
            return node.value if node.value is None or isinstance(node.value, SCALARS) else unknown(node)
        if isinstance(node, ast.Name):
            named = next((names[node.id] for names in frame if node.id in names), self.ABSENT)
            if named is not self.ABSENT:
                return named
            imported = self.code.name(node)
            if not imported and node.id not in self.code.own and not hasattr(builtins, node.id):
                self.do("unbound", node, node.id)
            return Thing("environ", hash("environ")) if imported == "os.environ" else unknown("name", node.id)
        if isinstance(node, ast.Call):
            return self.called(node, frame)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, self.value(node.value, frame))
        if isinstance(node, ast.Subscript):
            return self._item(node, self.value(node.value, frame), self.value(node.slice, frame))
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.value(each, frame) for each in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Set):
            return set_of(node, [self.value(each, frame) for each in node.elts])
        if isinstance(node, ast.Dict):
            pairs: Names = {}
            for key, each in zip(node.keys, node.values, strict=True):
                name = self.value(key, frame) if key is not None else None
                inner = self.value(each, frame)
                if not isinstance(name, str):
                    return unknown(node, name, inner)
                pairs[name] = inner
            return pairs
        if isinstance(node, ast.BoolOp):
            return self._bool(node, frame)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, frame)
            if isinstance(node.op, ast.Not):
                decided = truth(inner)
                return unknown("not", inner) if decided is None else not decided
            return -inner if isinstance(node.op, ast.USub) and type(inner) in (int, float) else unknown(node, inner)
        if isinstance(node, ast.BinOp):
            return self.of_two(node, node.op, self.value(node.left, frame), self.value(node.right, frame))
        if isinstance(node, ast.Compare):
            return self._compare(node, frame)
        if isinstance(node, ast.IfExp):
            test = self.value(node.test, frame)
            decided = truth(test)
            if decided is None:
                sure, self.is_sure = self.is_sure, False
                made = unknown(node, test, self.value(node.body, frame), self.value(node.orelse, frame))
                self.is_sure = sure
                return made
            return self.value(node.body if decided else node.orelse, frame)
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(each, frame) for each in node.values]
            plain = all(isinstance(each, SCALARS) for each in parts)
            if any(self.is_marked(each, "summed share") for each in parts):
                return self.mark(unknown(node, *parts), "summed share")
            return "".join(map(str, parts)) if plain else unknown(node, *parts)
        if isinstance(node, ast.FormattedValue):
            inner = self.value(node.value, frame)
            if node.format_spec is None or not isinstance(inner, SCALARS):
                is_marked = node.format_spec is None or self.is_marked(inner, "summed share")
                return inner if is_marked else unknown(node, inner)
            spec = self.value(node.format_spec, frame)
            try:
                return format(inner, spec) if isinstance(spec, str) and len(spec) < 8 else unknown(node, inner)
            except (ValueError, TypeError):
                return unknown(node, inner)
        if isinstance(node, ast.Lambda):
            return FollowedFunction(node, frame)
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value, frame)
            self.store(node.target, value, frame)
            return value
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            return self._made(node, frame)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            item = self.value(node.value, frame) if node.value is not None else None
            if self.yields:
                outer, self.events = self.events, []
                self.yields[-1](item if isinstance(node, ast.Yield) else unknown(node, item))
                inner, self.events = self.events, outer
                if isinstance(node, ast.YieldFrom):
                    self.events.append(CourseRound(node, tuple(inner)))
                else:
                    self.events += inner
            return None
        if isinstance(node, ast.Slice):
            parts = [
                self.value(each, frame) if each is not None else None for each in (node.lower, node.upper, node.step)
            ]
            return slice(*parts) if all(each is None or type(each) is int for each in parts) else unknown(node, *parts)
        parts = [self.value(each, frame) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return unknown(node, *parts)

    def of_two(self, node: ast.AST, sign: ast.operator, one: Value, other: Value) -> Value:
        apply = OPERATORS.get(type(sign))
        numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
        texts = isinstance(one, str) and (isinstance(other, str) or (isinstance(sign, ast.Mod) and is_known(other)))
        if apply is not None and ((numbers and max(abs(one), abs(other)) < LARGEST) or texts):
            try:
                return apply(one, other)
            except (ArithmeticError, TypeError, ValueError):
                pass
        if isinstance(sign, ast.Div) and isinstance(one, str):  # a path
            return str(PurePosixPath(one, other)) if isinstance(other, str) else Thing(
                "path", unknown(node, one, other).key, {"folder": one})  # fmt: skip
        if isinstance(one, list) and isinstance(other, list) and isinstance(sign, ast.Add):
            return one + other
        if isinstance(one, list) and type(other) is int and isinstance(sign, ast.Mult) and 0 <= other <= 64:
            many = (one * other)[:64] if one else one
            if other > 1 and len(one) == 1 and one[0] is not None:
                self.repeated.append(many)
            return many
        self.uses(node, one)
        self.uses(node, other)
        if isinstance(sign, ast.Div) and is_own(one) and self.is_marked(other, "whole") and isinstance(node, ast.expr):
            self.do("part of the whole", node)
        result = self.handed_on("", unknown(node, one, other), one, [other])
        return self.of_shares(node, sign, one, other, result, self.world or 1)

    def uses(self, node: ast.AST, value: Value) -> None:
        """A collective that works in place gives None, which has no value."""
        if is_nothing(value) and isinstance(node, ast.expr):
            self.do(
                "refused",
                node,
                f"the result of {value.fields['call']} is used, which is None: it works in place",
                "Call it for itself, and read the tensor that was given to it.",
            )

    def _bool(self, node: ast.BoolOp, frame: tuple[Names, ...]) -> Value:
        """What is decided decides alone: `rank == 0 and loss < best` is false on rank 1."""
        ends = isinstance(node.op, ast.Or)
        left: list[Value] = []
        sure = self.is_sure
        for each in node.values:
            self.is_sure = sure and not left
            value = self.value(each, frame)
            self.is_sure = sure
            decided = truth(value)
            if decided is None:
                left.append(value)
            elif decided is ends:
                return value if not left else ends if not ends else unknown(node, *left, value)
        return unknown(node, *left) if left else value

    def _compare(self, node: ast.Compare, frame: tuple[Names, ...]) -> Value:
        one = self.value(node.left, frame)
        others = [self.value(each, frame) for each in node.comparators]
        if len(others) != 1:
            return unknown(node, one, *others)
        other, sign = others[0], node.ops[0]
        if isinstance(sign, (ast.In, ast.NotIn)):
            other = other.fields["items"] if isinstance(other, Thing) and other.kind == "set" else other
            if isinstance(other, Thing) and other.kind == "environ" and isinstance(one, str):
                there = self.seat.variable(one) if one not in self.environment else ""
                return (
                    unknown(node, one)
                    if isinstance(there, OpenValue)
                    else (there is not None) is isinstance(sign, ast.In)
                )
            if (
                is_known(one)
                and isinstance(other, (list, tuple, dict))
                and (isinstance(other, dict) or is_known(other))
            ):
                return (one in other) is isinstance(sign, ast.In)
            return unknown(node, one, other)
        compare = COMPARED[type(sign)]
        texts = {type(each) for each in (one, other)}
        of_order = isinstance(sign, (ast.Eq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        if (
            of_order
            and texts == {str, int}
            and any(isinstance(each, str) and each.lstrip("-").isdecimal() for each in (one, other))
        ):
            self.do("text beside a number", node, next(each for each in (one, other) if isinstance(each, str)),
                    isinstance(sign, ast.Eq))  # fmt: skip
        if isinstance(sign, (ast.Is, ast.IsNot)) and (one is None or other is None):
            one, other = (None if is_nothing(each) else each for each in (one, other))
            known = is_known(one) or isinstance(one, (Thing, FollowedFunction, ClassOf, list, tuple, dict))
            return (
                ((one is None) == (other is None)) is isinstance(sign, ast.Is) if known else unknown(node, one, other)
            )
        if is_known(one) and is_known(other):
            try:
                return bool(compare(one, other))
            except TypeError:
                return unknown(node, one, other)
        self.seen((one, other))
        return self.mark(unknown(node, one, other), "mask")

    def attribute(self, node: ast.Attribute, holder: Value) -> Value:
        raise NotImplementedError

    def part_of_mesh(self, node: ast.Subscript, mesh: Thing, place: Value) -> Value:
        raise NotImplementedError

    def _item(self, node: ast.Subscript, holder: Value, place: Value) -> Value:
        self.uses(node, holder)
        if isinstance(holder, Thing) and holder.kind == "loaded" and isinstance(place, str):
            return Thing("loaded", unknown(node, holder).key, {"place": (holder.fields["place"][0], place)})
        if isinstance(holder, Thing) and holder.kind == "environ" and isinstance(place, str):
            found = self.variable(place)
            return found if found is not None else unknown("absent", place)
        if isinstance(holder, dict) and isinstance(place, str) and place in holder:
            return holder[place]
        if isinstance(holder, Thing) and holder.kind == "mesh":
            return self.part_of_mesh(node, holder, place)
        if isinstance(place, slice):
            if isinstance(holder, (list, tuple, str)) and place.step != 0:
                return holder[place]
            part = self.indexed(node, unknown(node, holder, place.start, place.stop, place.step), holder, None)
            return self.dealt(part, place.start, place.step) if place.stop is None else part
        if isinstance(holder, (list, tuple, str)) and type(place) is int and -len(holder) <= place < len(holder):
            return holder[place]
        return self.indexed(node, unknown(node, holder, place), holder, place)

    def dealt(self, part: Value, first: Value, step: Value) -> Value:
        """`items[rank::world]`: of another length on some ranks, where the number does not divide."""
        is_dealt = type(step) is int and step == self.world and step > 1 and first == self.rank
        return self.mark(part, "dealt") if is_dealt else part

    def variable(self, name: str) -> Value:
        return self.environment[name] if name in self.environment else self.seat.variable(name)

    def _made(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, frame: tuple[Names, ...]
    ) -> Value:
        loop = node.generators[0]
        items = self.value(loop.iter, frame)
        items = list(items) if isinstance(items, range) and len(items) <= 64 else items
        if (
            len(node.generators) > 1
            or not isinstance(items, (list, tuple))
            or isinstance(node, ast.DictComp)
            or loop.ifs
        ):
            inner = ({}, *frame)
            for each in node.generators:
                self.store(each.target, unknown(each, self.value(each.iter, inner)), inner)
            elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            made_of = unknown(node, *(self.value(each, inner) for each in elements))
            return self.mark(made_of, "dealt") if self.is_marked(items, "dealt") else made_of
        made = []
        for item in items[:64]:
            inner = ({}, *frame)
            self.store(loop.target, item, inner)
            made.append(self.value(node.elt, inner))
        return made

    def method_of(self, holder: Thing, name: str) -> FollowedFunction | None:
        """Of its class, or of those of the text that the class is made from."""
        classes, outer = [holder.node], holder.fields.get("", (self.module,))
        for made in classes:
            if not isinstance(made, ast.ClassDef) or len(classes) > 8:
                continue
            method = next((each for each in made.body if isinstance(each, FUNCTIONS) and each.name == name), None)
            if method is not None:
                return FollowedFunction(method, outer, holder)
            bases = (self.module.get(each.id) for each in made.bases if isinstance(each, ast.Name))
            classes += [each.node for each in bases if isinstance(each, ClassOf)]
        return None
