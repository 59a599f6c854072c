"""Commands that a program starts, by os.system or subprocess.run([...]) -> the shell text that they are.

What the program puts in itself stands there as `$(name)`, a value that nobody knows. Nothing is run.
"""

import ast
import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.lint.model import Span
from gpudoctor.lint.python_code import PythonCode, argument, constant

RUNS = frozenset(("run", "call", "check_call", "check_output", "Popen"))
SYSTEMS = frozenset(("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"))
OF_TORCH = ("torch.distributed.run.parse_args", "torch.distributed.run.main")
"""They take the words of torchrun."""
GROW = ("append", "extend", "insert", "update")
"""A list that grows is not what it was."""
MOST_COMMANDS = 50
DEEPEST = 4


class PythonCommand(Struct, frozen=True):
    """A call that starts a command."""

    call: ast.Call
    span: Span
    line: str
    """The command as a shell would be given it."""
    words: tuple[ast.expr, ...] = ()
    """Of a list, its elements; empty of a string."""
    is_shell: bool = True
    waits: bool = True


def commands(code: PythonCode) -> Iterator[PythonCommand]:
    """In the order of the text."""
    if not re.search(r"\b(?:os\.(?:system|popen)|subprocess|Popen|check_call|torch\.distributed\.run)\b", code.text):
        return
    names = _Bound(code)
    count = 0
    for call in code.calls:
        called = code.name(call.func)
        by_shell = called in SYSTEMS
        by_torch = called in OF_TORCH
        if (
            not by_shell
            and not by_torch
            and not (called.startswith("subprocess.") and called.rpartition(".")[2] in RUNS)
        ):
            continue
        node = names.value(argument(call, "args", 0) or argument(call, "cmd", 0) or argument(call, "command", 0))
        if node is None or count >= MOST_COMMANDS:
            continue
        count += 1
        by_shell = by_shell or constant(argument(call, "shell")) is True
        variables = "".join(f"{name}={value} " for name, value in names.environment(call))
        items = tuple(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else ()
        if isinstance(node, (ast.List, ast.Tuple)):
            line = " ".join([*(["torchrun"] if by_torch else []), *(names.word(item) for item in items)])
        else:
            line = " ".join(names.text(node).split("\n")) if "<<" not in names.text(node) else ""
        if line.strip():
            waits = called.rpartition(".")[2] != "Popen"
            yield PythonCommand(call, code.span(call), variables + line, items, by_shell, waits)


class _Bound:
    """What a program's names stand for, where each is bound once."""

    def __init__(self, code: PythonCode) -> None:
        self.code = code
        bound: dict[str, list[ast.expr | None]] = {}
        for node in code.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                bound.setdefault(node.targets[0].id, []).append(node.value)
        stored: dict[str, int] = {}
        for node in code.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stored[node.id] = stored.get(node.id, 0) + 1
            elif isinstance(node, ast.arg):
                stored[node.arg] = stored.get(node.arg, 0) + 2
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in GROW:
                stored[node.value.id] = stored.get(node.value.id, 0) + 2
        self.bound = {name: nodes[0] for name, nodes in bound.items() if len(nodes) == 1 and stored.get(name) == 1}

    def value(self, node: ast.expr | None) -> ast.expr | None:
        """The expression behind a name."""
        for _ in range(DEEPEST):
            if not isinstance(node, ast.Name) or node.id not in self.bound:
                break
            node = self.bound[node.id]
        if isinstance(node, ast.Call) and self.code.name(node.func) == "shlex.split" and node.args:
            return self.value(node.args[0])
        is_split = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split"
        if is_split and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            return self.value(node.func.value)
        return node

    def word(self, node: ast.expr) -> str:
        """An element of a list, quoted for a shell."""
        if isinstance(node, ast.Starred):
            return f"$({_named(node.value)})"
        value = self.value(node)
        if isinstance(value, ast.Constant) and isinstance(value.value, (str, int, float)):
            return shlex.quote(str(value.value))
        if value is not None and self.code.name(value) == "sys.executable":
            return "python"
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "str" and value.args:
            return self.word(value.args[0])
        text = self.text(value)
        return re.sub(r"(?<!\$\()[\s;&|<>\"'](?![^(]*\))", lambda match: f"\\{match[0]}", text)

    def text(self, node: ast.expr | None, depth: int = 0) -> str:
        """A string that a program makes, with what is not known as `$(name)`."""
        node = self.value(node)
        if depth > DEEPEST * 4 or node is None:
            return "$(value)"
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(value, depth + 1) for value in node.values)
        if isinstance(node, ast.FormattedValue):
            literal = self.value(node.value)
            plain = isinstance(literal, ast.Constant) and node.format_spec is None
            return str(literal.value) if plain and isinstance(literal, ast.Constant) else f"$({_named(node.value)})"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.text(node.left, depth + 1) + self.text(node.right, depth + 1)
        is_join = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        if is_join and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            items = self.value(node.args[0])
            glue = constant(node.func.value)
            if isinstance(items, (ast.List, ast.Tuple)) and isinstance(glue, str):
                return glue.join(self.text(element, depth + 1) for element in items.elts)
        return f"$({_named(node)})"

    def environment(self, call: ast.Call) -> Iterator[tuple[str, str]]:
        """What env= adds to the program's own variables, and what it sets of its own before."""
        node = self.value(argument(call, "env"))
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = [
                (constant(key), value) for key, value in zip(node.keys, node.values, strict=True) if key is not None
            ]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        for name, value in pairs:
            word = self.value(value)
            if isinstance(name, str) and name.isidentifier() and isinstance(word, ast.Constant):
                yield name, shlex.quote(str(word.value))


def _named(node: ast.expr) -> str:
    """As a message names it: `args.gpus`."""
    text = ast.unparse(node)
    return text if re.fullmatch(r"[\w.]{1,60}", text, re.ASCII) else "value"
