"""Which conditions of a program ask for the rank, whatever its names are: followed through the text of its file.

`master` is `me == 0`, and `me` is `dist.get_rank()`: so `if master:` lets in the rank 0. Nothing is executed; a name
that is given values of several kinds, or comes from elsewhere, tells nothing.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.knowledge import rank_names
from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.source_text import text_of
from gpudoctor.snapshot.evidence import Enclosing

RANK = "rank"
LOCAL_RANK = "local_rank"
IN_GROUP = "rank_in_group"
"""Its number in a group of some ranks, which is not known here."""
CHOSEN = "rank_decides"
"""A function that was chosen by the rank, from a table."""
ASKED = {
    "get_rank": RANK,
    "get_global_rank": IN_GROUP,
    "get_group_rank": IN_GROUP,
    "get_node_local_rank": LOCAL_RANK,
    "get_local_rank": LOCAL_RANK,
}
VARIABLES = {
    "RANK": RANK,
    "LOCAL_RANK": LOCAL_RANK,
    "SLURM_PROCID": RANK,
    "SLURM_LOCALID": LOCAL_RANK,
    "OMPI_COMM_WORLD_RANK": RANK,
    "OMPI_COMM_WORLD_LOCAL_RANK": LOCAL_RANK,
    "PMI_RANK": RANK,
}
KNOWN = lazy_re(
    r"(?!(?:\w+_)?(?:lora|low|svd|matrix|adapter|projection|galore|max|min|num|target|approx|tensor|layer)_rank$)"
    r"(?:\w+_)?rank|is_(?:local_|world_)?(?:main|master|chief|primary|global_zero|first_worker|rank_?0|rank_zero)"
    r"(?:_process)?(?:_zero)?|is_(?:world|local)_process_zero|(?:main|master)_process",
    re.I,
)
"""Names of libraries' attributes that are the rank, or whether it is 0, where the file itself does not say. The
rank of a matrix is none."""
CONVERTS = ("int", "bool", "str", "abs")
DEEPEST = 6
MOST_STEPS = 2000
"""For one condition: names that are given many values, each of other such names, tell nothing."""
MOST_NAMES = 4096


class ByRank:
    """What the names of one file have to do with the rank."""

    def __init__(self, tree: ast.Module) -> None:
        self.values: defaultdict[str, list[ast.expr]] = defaultdict(list)
        """By the name, or the attribute with a dot before it: what it is given anywhere in the file."""
        self.results: defaultdict[str, list[ast.expr]] = defaultdict(list)
        """By the function's name: what it returns."""
        self._left = MOST_STEPS
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        functions |= {
            node.name: made
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for made in node.body
            if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        }
        self._under = dict(_under_conditions(tree))
        for node in ast.walk(tree):
            if len(self.values) + len(self.results) > MOST_NAMES:
                break
            if isinstance(node, ast.FunctionDef):
                own = [
                    inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value is not None
                ]
                self.results[node.name] += own if len(own) == 1 else [*own, ast.Constant(None)]
            elif isinstance(node, ast.Call):
                self._passed(node, functions)
            else:
                for target, value in _given(node):
                    self._give(target, value)

    def _give(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values[target.id].append(value)
        elif isinstance(target, ast.Attribute):
            self.values["." + target.attr].append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for number, element in enumerate(target.elts):
                own = value.elts[number] if same and isinstance(value, ast.Tuple | ast.List) else ast.Constant(None)
                self._give(element, own)

    def _passed(self, call: ast.Call, functions: dict[str, ast.FunctionDef]) -> None:
        """Arguments of the file's own functions are what their parameters are; those that a class is made with, what
        its attributes are."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        called = functions.get(name)
        parameters = [arg.arg for arg in called.args.args] if called is not None else []
        if called is not None and called.name == "__init__":
            parameters = parameters[1:]
        for parameter, value in zip(parameters, call.args, strict=False):
            if not (isinstance(value, ast.Name) and value.id == parameter):
                self.values[parameter].append(value)
        for keyword in call.keywords:
            if keyword.arg is None or (isinstance(keyword.value, ast.Name) and keyword.value.id == keyword.arg):
                continue
            if keyword.arg in parameters:
                self.values[keyword.arg].append(keyword.value)
            if name[:1].isupper():
                self.values["." + keyword.arg].append(keyword.value)

    def asks(self, condition: ast.expr) -> str:
        """The condition with the rank in it by its name; empty where it does not ask for the rank."""
        self._left = MOST_STEPS
        try:
            node = self._told(condition, 0)
            return " ".join(ast.unparse(node).split())[:160] if node is not None else ""
        except (RecursionError, ValueError, AttributeError):
            return ""

    def chooses(self, function: ast.expr) -> bool:
        """Whether what is called was chosen by the rank: `TABLE[rank]`, `TABLE.get(rank, other)`."""
        name = _name(function)
        self._left = MOST_STEPS
        for value in [function, *self.values.get(name, ())]:
            if isinstance(value, ast.Subscript) and self._told(value.slice, 0) is not None:
                return True
            is_get = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get"
            if is_get and isinstance(value, ast.Call) and value.args and self._told(value.args[0], 0) is not None:
                return True
            if isinstance(value, ast.IfExp) and self._told(value.test, 0) is not None:
                return True
        return False

    def _told(self, node: ast.expr, depth: int) -> ast.expr | None:
        """The expression in terms of the rank; None where it does not depend on it alone."""
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            return None
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node, depth)
        if isinstance(node, ast.Subscript):
            return _variable(node.value, node.slice)
        if isinstance(node, ast.NamedExpr):
            return self._told(node.value, depth + 1)
        if isinstance(node, ast.UnaryOp):
            inner = self._told(node.operand, depth + 1)
            return ast.UnaryOp(node.op, inner) if inner is not None else None
        if isinstance(node, ast.BoolOp):
            nodes = [self._told(value, depth + 1) for value in node.values]
            if not any(part is not None for part in nodes):
                return None
            parts = [part or _blank(value) for part, value in zip(nodes, node.values, strict=True)]
            return ast.BoolOp(node.op, parts)
        if isinstance(node, ast.BinOp):
            left = self._told(node.left, depth + 1)
            return ast.BinOp(left, node.op, _blank(node.right)) if left is not None else None
        if isinstance(node, ast.IfExp):
            return self._chosen(node.body, node.orelse, node.test, depth)
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            if isinstance(node.ops[0], ast.Is | ast.IsNot) and _is_nothing(node.comparators[0]):
                there = self._there(node.left, depth + 1)
                return there if there is None or isinstance(node.ops[0], ast.IsNot) else ast.UnaryOp(ast.Not(), there)
            left, right = self._told(node.left, depth + 1), self._told(node.comparators[0], depth + 1)
            if left is None and right is None:
                return None
            if isinstance(left, ast.Name) and isinstance(right, ast.Name):
                right = None  # `get_rank() == rank`: whose number that is, the file does not tell
            return ast.Compare(left or _blank(node.left), node.ops, [right or _blank(node.comparators[0])])
        return None

    def _chosen(self, one: ast.expr, other: ast.expr, test: ast.expr, depth: int) -> ast.expr | None:
        """Whether there is something, of what the rank decides: `Writer() if rank == 0 else None`."""
        if _is_nothing(one) == _is_nothing(other):
            return None
        inner = self._told(test, depth + 1)
        return inner if inner is None or _is_nothing(other) else ast.UnaryOp(ast.Not(), inner)

    def _called(self, node: ast.Call, depth: int) -> ast.expr | None:
        name = _name(node.func)
        if name in ASKED:
            return ast.Name(IN_GROUP if node.args or node.keywords else ASKED[name])
        if name in ("get", "getenv") and node.args:
            owner = node.func.value if isinstance(node.func, ast.Attribute) and name == "get" else None
            return _variable(owner, node.args[0])
        if isinstance(node.func, ast.Name) and name in CONVERTS and len(node.args) == 1:
            return self._told(node.args[0], depth + 1)
        if name in self.results:
            nodes = [self._told(returned, depth + 1) for returned in self.results[name]]
            return nodes[0] if len(nodes) == 1 else None
        return _known(name)

    def _named(self, node: ast.Name | ast.Attribute, depth: int) -> ast.expr | None:
        key = node.id if isinstance(node, ast.Name) else "." + node.attr
        given = self.values.get(key, [])
        if given:
            first = self._told(given[0], depth + 1)
            same = ast.dump(first) if first is not None else ""
            others = (self._told(value, depth + 1) for value in given[1:])
            if first is not None and all(other is not None and ast.dump(other) == same for other in others):
                return first
            if (there := self._present(given, depth)) is not None:
                return there
        name = key.lstrip(".")
        if name in self.results and not given and isinstance(node, ast.Attribute):  # a property
            nodes = [self._told(returned, depth + 1) for returned in self.results[name]]
            if len(nodes) == 1:
                return nodes[0]
        return _known(name)

    def _there(self, node: ast.expr, depth: int) -> ast.expr | None:
        """Whether a name, or what a function returns, is something, where the rank decides that."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.IfExp):
            return self._told(node, depth)
        if isinstance(node, ast.Call):
            results = self.results.get(_name(node.func), [])
            return self._there(results[0], depth + 1) if len(results) == 1 else None
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        given = self.values.get(node.id if isinstance(node, ast.Name) else "." + node.attr, [])
        return self._there(given[0], depth + 1) if len(given) == 1 else self._present(given, depth)

    def _present(self, given: list[ast.expr], depth: int) -> ast.expr | None:
        """Whether there is something, where a name is given nothing first and something under one condition on the
        rank."""
        some = [value for value in given if not _is_nothing(value)]
        tests = [self._under.get(id(value)) for value in some]
        if len(some) == len(given) or len(some) != 1 or tests[0] is None:
            return None
        return self._told(tests[0], depth + 1)


def _known(name: str) -> ast.expr | None:
    """What a name says that the file gives nothing."""
    if rank_names.IN_GROUP.fullmatch(name) is not None:
        return ast.Name(IN_GROUP)
    return ast.Name(name) if KNOWN.fullmatch(name) else None


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _under_conditions(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Of what is given under an `if` alone: the value, and the condition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            for statement in node.body:
                if isinstance(statement, ast.Assign):
                    yield id(statement.value), node.test


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement gives to which names."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign | ast.For):
        yield node.target, ast.Constant(None)
    elif isinstance(node, ast.With):
        yield from ((item.optional_vars, ast.Constant(None)) for item in node.items if item.optional_vars is not None)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _variable(owner: ast.expr | None, key: ast.expr) -> ast.expr | None:
    """`os.environ["RANK"]`; without an owner, `os.getenv("RANK")`."""
    if owner is not None and _name(owner) != "environ":
        return None
    name = VARIABLES.get(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
    return ast.Name(name) if name is not None else None


def _blank(node: ast.expr) -> ast.expr:
    """What else a condition asks, without texts: numbers and names stay."""
    if isinstance(node, ast.Constant):
        return ast.Constant("...") if isinstance(node.value, str | bytes) else node
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and all(
        isinstance(element, ast.Constant) for element in node.elts
    ):
        return type(node)([_blank(element) for element in node.elts])
    return ast.Name("something")


@functools.lru_cache(maxsize=8)
def of(tree: ast.Module) -> ByRank:
    """Kept for all lines of a file."""
    return ByRank(tree)


_FOR_ONE = lazy_re(
    r"(?:rank_?(?:zero|0)_only|only_(?:on_)?rank_?(?:zero|0)|(?:on_)?(?:local_)?(?:main|master)_process(?:_only)?"
    r"|(?:master|main)_only)"
)
"""Decorators of Lightning (rank_zero_only), accelerate (on_main_process), mmengine (master_only) and the like."""


_FOR_ANOTHER = ("on_last_process", "on_process", "on_local_process")
_REMEMBERS = lazy_re(r"(?:\w+_)?(?:cache|cached|memoize|memoise|memoized)(?:_\w+)?|cachedmethod|lazy_property")
"""functools.lru_cache, cache and cached_property, cachetools.cached, joblib's memory.cache, torch's lazy_property."""


def decorated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Enclosing]:
    """A condition that stands above a function: on the rank (`@rank_zero_only`), or that it has no result yet."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = text_of(called).rpartition(".")[2]
        if _FOR_ONE.fullmatch(name):
            yield Enclosing("if", decorator.lineno, f"@{text_of(called)}", "rank == 0")
        elif name in _FOR_ANOTHER:  # accelerate's; which it is, `on_process` is told
            number = decorator.keywords[0].value if isinstance(decorator, ast.Call) and decorator.keywords else None
            own = text_of(number) if number is not None else "world_size - 1"
            yield Enclosing("if", decorator.lineno, f"@{text_of(called)}", f"rank == {own}")
        elif _REMEMBERS.fullmatch(name):
            yield Enclosing("cache", decorator.lineno, f"@{text_of(called)}")
