"""What of its own modules a program comes to: a function that nothing of it names is other programs'.

By names alone, so that a function counts as reached as soon as its name stands in what is reached. Nothing is told of
the rest: it is judged with the program that calls it.
"""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes


def is_reached(job: LintJob, span: Span) -> bool:
    """Of a place in a module."""
    return any(start <= span.start < end for start, end in _reached(job))


@once_a_job
def _reached(job: LintJob) -> tuple[tuple[int, int], ...]:
    """Stretches of modules."""
    return tuple(stretch for code in codes(job) for stretch in _of_program(code))


def _of_program(code: PythonCode) -> Iterator[tuple[int, int]]:
    """Statements outside of definitions run as the module is imported; definitions count from when they are named."""
    waiting: list[ast.AST] = list(code.tree.body)
    named: set[str] = set()
    defined: dict[str, list[ast.stmt]] = {}
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            is_called_so = node.name.startswith("__") and node.name.endswith("__")  # by Python itself
            if code.is_elsewhere(node) and node.name not in named and not is_called_so:
                defined.setdefault(node.name, []).append(node)
                waiting += node.decorator_list
                continue
        if isinstance(node, (ast.stmt, ast.expr)) and code.is_elsewhere(node):
            span = code.span(node)
            yield span.start, span.end
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name and name not in named:
            named.add(name)
            waiting += defined.pop(name, ())
        waiting += ast.iter_child_nodes(node)
