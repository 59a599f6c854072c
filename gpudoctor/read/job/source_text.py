"""The program's own words, shortened and without its texts; and which functions it makes handlers of signals, which
names stores, which process groups of which ranks."""

import ast
import copy
import functools
from collections.abc import Iterator

from gpudoctor.knowledge.wording import shortened
from gpudoctor.snapshot.evidence import Enclosing

LONGEST_TEXT = 160


class _Blank(ast.NodeTransformer):
    """String and bytes constants become "...": they may hold names, paths, keys."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("...") if isinstance(node.value, str | bytes) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Without its words and formats; what it calls stays, for a rank may wait in it: f"best {store.get(key)}"."""
        parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        called = [part for part in parts if any(isinstance(inner, ast.Call) for inner in ast.walk(part.value))]
        kept: list[ast.expr] = [ast.FormattedValue(self.visit(part.value), -1, None) for part in called]
        return ast.JoinedStr(kept) if kept else ast.Constant("...")

    def visit_TemplateStr(self, node: ast.AST) -> ast.AST:
        """Of Python 3.14."""
        return ast.Constant("...")


@functools.lru_cache(maxsize=1 << 14)
def text_of(node: ast.AST) -> str:
    """The text of an expression, strings blanked. Of a copy: the tree is walked again, and by each of its frames."""
    try:
        blanked = _Blank().visit(copy.deepcopy(node))
        return cut(ast.unparse(blanked).replace("'...'", '"..."'))
    except (RecursionError, ValueError, AttributeError):  # nested too deeply, or a node that this Python does not write
        return "..."


def cut(text: str) -> str:
    return shortened(" ".join(text.split()).encode("utf-8", "replace").decode("utf-8"), LONGEST_TEXT)


def handlers(tree: ast.Module) -> Iterator[str]:
    """Functions of the file that it makes handlers of signals."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or len(node.args) != 2:
            continue
        called, given = node.func, node.args[1]
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) != "signal":
            continue
        if isinstance(given, ast.Name | ast.Attribute):
            yield given.id if isinstance(given, ast.Name) else given.attr


_ASKS_TO_STOP = ("should_stop", "should_training_stop", "should_epoch_stop", "stop_training", "should_terminate")
"""Lightning's trainer, transformers' control, Keras and Composer, ignite's engine."""
_STOPS_ALONE = ("EarlyStoppingCallback",)
"""transformers' (trainer_callback.py, on_evaluate); Lightning's EarlyStopping reduces its decision."""
_IGNITES = {"score_function"}
"""What ignite's EarlyStopping is given, and no other's: it asks its engine to terminate, on this rank."""


def ends_loops(tree: ast.Module) -> Iterator[str]:
    """What the file sets to ask a framework's loop to end, or a callback sets that asks no other rank; Lightning's
    hook may also return -1 for that."""
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in _STOPS_ALONE:
            yield f"should_training_stop:{node.lineno}"
        if isinstance(node, ast.Call) and name == "EarlyStopping" and _IGNITES & {word.arg for word in node.keywords}:
            yield f"should_terminate:{node.lineno}"
        if isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Constant) and node.value.value is False:
                continue  # begun anew
            yield from (
                f"{one.attr}:{node.lineno}"
                for one in node.targets
                if isinstance(one, ast.Attribute) and one.attr in _ASKS_TO_STOP
            )
        elif isinstance(node, ast.FunctionDef) and node.name == "on_train_batch_start":
            returned = (own for own in ast.walk(node) if isinstance(own, ast.Return) and own.value is not None)
            yield from (f"-1:{own.lineno}" for own in returned if own.value and ast.unparse(own.value) == "-1")


def by_threads(tree: ast.Module) -> Iterator[Enclosing]:
    """What functions set that the file hands to threads of this process: attributes, and names of functions around."""
    given: set[str] = set()
    for node in ast.walk(tree):
        name = text_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and (name == "submit" or name.endswith(("Thread", "Timer"))):
            named = [one.value for one in node.keywords if one.arg in ("target", "function")]
            given |= {text_of(one).rpartition(".")[2] for one in (*node.args[:2], *named)}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name not in given:
            continue
        inner = list(ast.walk(function))
        outer = {name for node in inner if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for node in (node for node in inner if isinstance(node, ast.Assign)):
            for one in node.targets:
                if isinstance(one, ast.Attribute) or (isinstance(one, ast.Name) and one.id in outer):
                    yield Enclosing(text_of(one), node.lineno, function.name)


def stores(tree: ast.Module) -> Iterator[str]:
    """Names to which the file gives a store of torch.distributed: `TCPStore(...)`, `_get_default_store()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name.endswith("Store") or name in ("_get_default_store", "create_c10d_store"):
                for target in node.targets:
                    if isinstance(target, ast.Name | ast.Attribute):
                        yield target.id if isinstance(target, ast.Name) else target.attr


MOST_MEMBERS = 64


def groups(tree: ast.Module) -> Iterator[str]:
    """Names to which the file gives a process group whose members it writes down: "pair=0,1"."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        named = next((keyword.value for keyword in node.value.keywords if keyword.arg == "ranks"), None)
        members = _members(named or (node.value.args[0] if node.value.args else None))
        if name != "new_group" or not members:
            continue
        for target in node.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield f"{target.id if isinstance(target, ast.Name) else target.attr}={','.join(map(str, members))}"


def _members(node: ast.AST | None) -> list[int]:
    """Of `[0, 1]`, `range(4)`, `list(range(2, 4))`; [] where they are computed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "list":
            return _members(node.args[0])
        bounds = [bound.value for bound in node.args if isinstance(bound, ast.Constant)]
        whole = [bound for bound in bounds if isinstance(bound, int)]
        if node.func.id == "range" and len(whole) == len(node.args) < 3:
            return list(range(*whole))[:MOST_MEMBERS]
    if isinstance(node, ast.List | ast.Tuple):
        numbers = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        return numbers if len(numbers) == len(node.elts) <= MOST_MEMBERS else []
    return []
