"""One rank's way through a program: what is known of values beside what they are worth."""

import ast

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.values import OpenValue, Thing, Value, is_known

KEEPS_SHAPE = frozenset(("cpu", "cuda", "to", "float", "half", "double", "long", "contiguous", "detach", "clone",
                         "bool", "int"))  # fmt: skip
OF_SHAPES = frozenset(("nonzero", "unique", "masked_select", "nms", "batched_nms", "argwhere"))
"""What gives as many rows as the data have it."""
_DEALS = lazy_re(r"rank|process_index")


class MarkedValues:
    """Marks: "mask" (of a comparison), "ragged" (as long as the data have it), "graphless" (gathered from other ranks:
    without a gradient), "whole" (the length of data that the ranks have divided), "drawn" (another order on each
    rank)."""

    marks: dict[str, set[int]]

    def do(self, what: str, node: ast.expr, value: Value = None, more: Value = None) -> None:
        raise NotImplementedError

    def mark(self, value: Value, mark: str) -> Value:
        if isinstance(value, (OpenValue, Thing)):
            self.marks.setdefault(mark, set()).add(value.key)
        return value

    def unmark(self, value: Value, mark: str) -> None:
        if self.is_marked(value, mark):
            self.marks[mark].discard(value.key)

    def is_marked(self, value: Value, mark: str) -> bool:
        return isinstance(value, (OpenValue, Thing)) and value.key in self.marks.get(mark, ())

    def handed_on(self, name: str, result: Value, holder: Value, given: list[Value]) -> Value:
        """A call's result keeps what its arguments are marked with, where the call keeps it."""
        if name in OF_SHAPES or (name in KEEPS_SHAPE and self.is_marked(holder, "ragged")):
            self.mark(result, "ragged")
        parts = [each for each in (holder, *given) if not is_known(each) and not isinstance(each, (list, tuple, slice))]
        if any(self.is_marked(each, "graphless") for each in parts) and all(map(self._has_no_graph, parts)):
            self.mark(result, "graphless")
        return result

    def _has_no_graph(self, value: Value) -> bool:
        is_made = isinstance(value, Thing) and value.kind == "tensor" and "from" not in value.fields
        return is_made or self.is_marked(value, "graphless")

    def indexed(self, node: ast.Subscript, result: Value, holder: Value, place: Value) -> Value:
        if self.is_marked(place, "mask"):
            self.mark(result, "ragged")
        if self.is_marked(holder, "drawn") and _DEALS.search(ast.unparse(node.slice)):
            self.do("dealt in its own order", node)
        return result
