"""Where a coroutine stands that waits, from the text alone: of an event loop's stack nothing tells it. A function with
one `await` can be suspended nowhere else."""

import ast
from collections.abc import Iterator

from gpudoctor.read.job.source_text import text_of
from gpudoctor.read.job.source_walk import functions_of, own_name
from gpudoctor.snapshot.evidence import Enclosing

_RUNS = ("run", "run_until_complete")
DEEPEST = 8


def awaits(tree: ast.Module, statement: ast.AST) -> Iterator[Enclosing]:
    """Of a statement that runs a function of the file in an event loop: its only `await`, and that of the function of
    the file which is awaited there, and so on; kind is the function."""
    runs = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and _runs(node)]
    functions = functions_of(tree) if runs else {}
    given = (own_name(node.args[0], functions) for node in runs)
    name = next((own for own in given if isinstance(functions.get(own), ast.AsyncFunctionDef)), "")
    for _ in range(DEEPEST):
        if not name or len(found := list(_suspended(functions[name]))) != 1:
            return
        waited = found[0]
        yield Enclosing(name, waited.lineno, text_of(waited))
        name = own_name(waited, functions)


def _runs(call: ast.Call) -> bool:
    """`asyncio.run(fetch(urls))`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _RUNS and bool(call.args)


def _suspended(function: ast.AST) -> Iterator[ast.expr]:
    """What may suspend a function, without functions inside it."""
    stack = list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Await):
            yield node.value
        elif isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
            yield node.iter
        elif isinstance(node, ast.AsyncWith):
            yield from (item.context_expr for item in node.items)
        stack += ast.iter_child_nodes(node)
