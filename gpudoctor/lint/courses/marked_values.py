"""One rank's way through a program: what is known of values beside what they are worth."""

import ast
from collections.abc import Iterable

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.values import OpenValue, Thing, Value, is_known, is_own
from gpudoctor.lint.python_code import PythonCode

KEEPS_SHAPE = frozenset(("cpu", "cuda", "to", "float", "half", "double", "long", "contiguous", "detach", "clone",
                         "bool", "int"))  # fmt: skip
OF_SHAPES = frozenset(("nonzero", "unique", "masked_select", "nms", "batched_nms", "argwhere"))
"""What gives as many rows as the data have it."""
KEEPS_SHARE = frozenset((*KEEPS_SHAPE, "item", "tensor", "as_tensor", "round", "tolist", "numpy", "format", "str",
                         "FloatTensor", "squeeze", "scale"))  # fmt: skip
KEEPS_LENGTH = frozenset(("list", "sorted", "tuple", "cat", "stack", "concatenate", "vstack", "tensor", "as_tensor",
                          "array"))  # fmt: skip
IN_PLACE = frozenset(("div_", "mul_", "true_divide_", "copy_", "fill_", "zero_"))
SHOWS = frozenset(("print", "info", "debug", "warning", "add_scalar", "add_scalars", "log", "write", "set_postfix",
                   "set_description", "log_metrics"))  # fmt: skip
MEAN_LOSSES = lazy_re(
    r"torch\.nn\.(?:functional\.(?:\w+_loss|cross_entropy|binary_cross_entropy\w*)|(?:\w+\.)*\w+Loss)"
)
_COUNTS = lazy_re(r"world|nprocs|num_processes|n_?gpus?|ranks|replicas")
_DEALS = lazy_re(r"rank|process_index")


class MarkedValues:
    """Marks: "share" (a mean or a quotient of this rank's own part), "summed share" (that, added up over the ranks),
    "times the ranks" (a share, multiplied by their number), "dealt" (every so-manieth from the rank on: of another
    length on each rank), "mask" (of a comparison), "ragged" (as long as the data have it), "graphless" (gathered from
    other ranks: without a gradient), "whole" (the length of data that the ranks have divided), "drawn" (another order
    on each rank)."""

    code: PythonCode
    marks: dict[str, set[int]]
    summed: dict[int, ast.expr]
    """Where shares were added up, by the sum's key."""

    def do(self, what: str, node: ast.expr, value: Value = None, more: Value = None) -> None:
        raise NotImplementedError

    def mark(self, value: Value, mark: str) -> Value:
        if isinstance(value, (OpenValue, Thing)):
            self.marks.setdefault(mark, set()).add(value.key)
        return value

    def unmark(self, value: Value, mark: str) -> None:
        if self.is_marked(value, mark):
            self.marks[mark].discard(value.key)

    def computed(self, node: ast.Call, whole: str, function: Value, result: Value, parts: list[Value]) -> None:
        """What a call keeps of the marks that speak of shares, and where they come to be seen. Its parts: what it is a
        method of first."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in IN_PLACE:
            self.unmark(parts[0], "summed share")
        if name in SHOWS:
            self.seen(parts)
        made = function.node if isinstance(function, Thing) and isinstance(function.node, ast.Call) else node
        whole = self.code.name(made.func) if made is not node else whole
        is_told = any(each.arg in ("reduction", "size_average", "reduce") for each in made.keywords)
        if (name == "mean" or MEAN_LOSSES.fullmatch(whole)) and any(map(is_own, parts)) and not is_told:
            self.mark(result, "share")
        for mark in ("share", "summed share", "times the ranks"):
            if name in KEEPS_SHARE and any(self.is_marked(each, mark) for each in parts[:2]):
                self.mark(result, mark)
        if name in KEEPS_LENGTH and any(self.is_marked(each, "dealt") for each in parts[1:]):
            self.mark(result, "dealt")

    def seen(self, values: Iterable[Value]) -> None:
        """They are printed, logged or compared."""
        for each in values:
            if isinstance(each, dict):
                self.seen(each.values())
            elif self.is_marked(each, "summed share"):
                self.do("sum of shares", list(self.summed.values())[-1])

    def of_shares(
        self, node: ast.AST, sign: ast.operator, one: Value, other: Value, result: Value, world: int
    ) -> Value:
        """A quotient of what this rank has; a share, as many times as there are ranks; a text that holds a sum."""
        if isinstance(sign, ast.Div) and is_own(one) and other != world and not self.is_marked(one, "summed share"):
            self.mark(result, "share")
        if isinstance(sign, ast.Mult) and isinstance(node, ast.BinOp):
            for share, times, words in ((one, other, node.right), (other, one, node.left)):
                if self.is_marked(share, "share") and times == world > 1 and _COUNTS.search(ast.unparse(words)):
                    self.mark(result, "times the ranks")
        if isinstance(sign, ast.Mod) and isinstance(one, str):
            self.seen([other])
        return result

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
