"""Turns of a loop that counts: in which of them a condition holds, as far as numbers decide it."""

import ast
from collections.abc import Iterable

from gpudoctor.lint.courses.expressions import COMPARED, OPERATORS
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, constant

EVERY = 4
"""Turns of a step, where the text does not tell: any number of two and more serves."""
TURNS = range(24)
Condition = tuple[ast.expr, bool]
"""An expression, and whether it must hold."""


class Turns:
    """A loop's counter, by the conditions that speak of it."""

    def __init__(self, code: PythonCode, loop: ast.For) -> None:
        self.code, self.loop = code, loop
        self.counter = _counter(loop)

    def conditions(self, node: ast.AST) -> list[Condition]:
        """Those between it and the loop."""
        found: list[Condition] = []
        below = node
        for above in self.code.around(node):
            if above is self.loop or isinstance(above, FUNCTIONS):
                break
            if isinstance(above, ast.If) and below is not above.test:
                found.append((above.test, below in above.body))
            if isinstance(above, ast.IfExp) and below is not above.test:
                found.append((above.test, below is above.body))
            below = above
        return found

    def speak(self, conditions: Iterable[Condition]) -> bool:
        """Whether the counter decides one of them."""
        return any(
            isinstance(node, ast.Name) and node.id == self.counter for test, _ in conditions for node in ast.walk(test)
        )

    def of(self, conditions: Iterable[Condition]) -> set[int]:
        """The turns in which all hold; what is no number is taken as false."""
        asked = list(conditions)
        return {turn for turn in TURNS if all(bool(self._value(test, turn)) is holds for test, holds in asked)}

    def _value(self, node: ast.expr, turn: int) -> int | bool | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int) else None
        if isinstance(node, ast.Name) and node.id == self.counter:
            return turn
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._told(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._value(node.operand, turn)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            values = [bool(self._value(each, turn)) for each in node.values]
            return any(values) if isinstance(node.op, ast.Or) else all(values)
        if isinstance(node, ast.BinOp):
            one, other = self._value(node.left, turn), self._value(node.right, turn)
            apply = OPERATORS.get(type(node.op))
            if apply is None or one is None or other is None or (other == 0 and isinstance(node.op, ast.Mod)):
                return None
            made = apply(one, other) if not isinstance(node.op, (ast.Div, ast.FloorDiv)) else None
            return made if isinstance(made, int) else None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            one, other = self._value(node.left, turn), self._value(node.comparators[0], turn)
            compare = COMPARED.get(type(node.ops[0]))
            return None if compare is None or one is None or other is None else bool(compare(one, other))
        return None

    def _told(self, node: ast.Name | ast.Attribute) -> int | None:
        """A constant of the text; how many turns make a step, where it is an option."""
        name = node.id if isinstance(node, ast.Name) else node.attr
        made = [
            constant(each.value)
            for each in self.code.nodes
            if isinstance(each, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
        ]
        known = [each for each in made if type(each) is int]
        if len(known) == 1 == len(made) and 1 < known[0] <= 12:
            return known[0]
        return EVERY if "acc" in name.lower() and len(known) == 0 else None


def _counter(loop: ast.For) -> str:
    target = loop.target
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else ""
    if isinstance(target, ast.Tuple) and target.elts:
        first = target.elts[0]
        words = ast.unparse(loop.iter)
        return first.id if isinstance(first, ast.Name) and "enumerate(" in words and ", 1)" not in words else ""
    return target.id if isinstance(target, ast.Name) and name in ("range", "trange") else ""
