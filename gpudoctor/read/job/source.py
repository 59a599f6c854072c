"""What the user's program says around a line, from its text alone: nothing of it is executed or imported."""

import ast
import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import structs

from gpudoctor.knowledge.call_waits import HARMLESS_METHODS, PLAIN
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_awaits import awaits
from gpudoctor.read.job.source_calls import calls_of, calls_of_own, forwards_of, gradients_of, hooks, unwritten
from gpudoctor.read.job.source_loops import ended_within
from gpudoctor.read.job.source_made import handed_under, made_under
from gpudoctor.read.job.source_objects import objects
from gpudoctor.read.job.source_text import LONGEST_TEXT, by_threads, cut, ends_loops, groups, handlers, stores, text_of
from gpudoctor.read.job.source_walk import called, children, functions_of, walk
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext

MAXIMUM_BYTES = 2 * 1024 * 1024
"""Of a file; the line is looked for in so much of it."""
MOST_PARSED = 256 * 1024
"""Of a larger file, only what stands around the line at the margin: the function or class, or the statement. A tree
takes a thousand times the memory of its text [measured: 1.9 GiB for 2 MiB of lines that say `a`]."""
MOST_ENCLOSING = 32
MOST_EXITS = 32
MOST_CALLS = 64
MOST_PARAMETERS = 16
MOST_YIELDED = 4


T = TypeVar("T")
COMMAND = "<string>"
"""The file that Python names for the text of `python -c`, and for what a program runs with `exec`."""


def context(frame: Frame, read: Callable[[str], bytes]) -> SourceContext | None:
    """What stands around a frame's line; None where the file cannot be read or is no Python.

    `read` gives the contents of a file by the name that the process has for it (it resolves relative names in the
    process's folder, its root and its rights), and raises `OSError`. The text may be anybody's: this is for a child
    process that is bounded in time and memory (`source_child`), and raises `MemoryError` and `RecursionError`.
    """
    a_file = frame.file and not frame.file.startswith("<")
    if frame.native or frame.line <= 0 or not (a_file or (frame.file, frame.function) == (COMMAND, "<module>")):
        return None
    try:
        raw = read(frame.file)
    except (OSError, ValueError):
        return None
    if not 0 < len(raw) <= MAXIMUM_BYTES:
        return None
    part = around(raw, frame.line)
    if part is None:
        return None
    try:
        return _context(_parsed(part), frame)
    except (SyntaxError, ValueError, OverflowError, UnicodeError):
        return None


def around(raw: bytes, line: int) -> bytes | None:
    """The text to parse for a line: all of a small file; of a large one its statement at the margin, behind as many
    empty lines as stand before it. None where that is too large too."""
    if len(raw) <= MOST_PARSED:
        return raw
    lines = raw.split(b"\n")
    if line > len(lines):
        return None
    first = line - 1
    size = len(lines[first])
    while first > 0 and not _is_margin(lines[first]) and size <= MOST_PARSED:
        first -= 1
        size += len(lines[first]) + 1
    last = line
    while last < len(lines) and not _is_margin(lines[last]) and size <= MOST_PARSED:
        size += len(lines[last]) + 1
        last += 1
    if size > MOST_PARSED:
        return None
    before = [text if number < 2 and text.startswith(b"#") else b"" for number, text in enumerate(lines[:first])]
    return b"\n".join((*before, *lines[first:last]))  # of the first two lines, one may say how the text is encoded


def _is_margin(line: bytes) -> bool:
    """Whether a statement begins here: no blank line or comment, nothing indented, no end of a bracket or branch."""
    return line[:1] not in (b"", b" ", b"\t", b"\r", b"\f", b"#", b")", b"]", b"}") and not line.startswith(_BRANCHES)


_BRANCHES = (b"else", b"elif", b"except", b"finally")


@functools.lru_cache(maxsize=8)
def _parsed(raw: bytes) -> ast.Module:
    """Kept, for all ranks run the same few files. Nobody changes the tree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's own invalid escapes
        return ast.parse(raw)


@functools.lru_cache(maxsize=16)
def _of_file(tree: ast.Module, names: Callable[[ast.Module], Iterator[T]]) -> tuple[T, ...]:
    """What holds for every line of a file, kept like its tree."""
    return tuple(names(tree))[:MOST_CALLS]


class _Step(NamedTuple):
    """A statement on the way from the file to the line, and the part of it that leads on."""

    node: ast.AST
    part: str
    """The name of the field: "body", "orelse", "finalbody", "handlers", "test", ..."""


def _context(tree: ast.Module, frame: Frame) -> SourceContext | None:
    path = _path(tree, frame.line)
    statement = next((step.node for step in reversed(path) if isinstance(step.node, ast.stmt)), None)
    if statement is None:
        return None
    function = next((step for step in reversed(path) if _is_function(step.node)), None)
    own = path[path.index(function) :] if function is not None else path
    scope: ast.AST = function.node if function is not None else tree
    names = by_rank.of(tree)
    owner = next((step.node for step in path if isinstance(step.node, ast.ClassDef)), None)
    inside = [*_within(statement, frame.line, names), *_enclosing(own, names)]
    if owner is not None and function is not None:
        method = getattr(function.node, "name", "")
        inside += [*made_under(tree, owner.name, names)] or handed_under(tree, owner.name, method, names)
    return SourceContext(
        file=frame.file,
        line=frame.line,
        function=frame.function,
        text=_line_text(statement, frame.line),
        enclosing=tuple(inside)[:MOST_ENCLOSING],
        exits=(*_exits(own, scope, names), *ended_within(tree, _loop_of(own), names))[:MOST_EXITS],
        outer_exits=tuple(_outer_exits(own, names))[:MOST_EXITS],
        calls=tuple(calls_of(scope, names))[:MOST_CALLS],
        leads_to=tuple(calls_of_own(scope, functions_of(tree), names))[:MOST_CALLS],
        gradients=tuple(gradients_of(scope, functions_of(tree)))[:MOST_CALLS],
        forwards=tuple(forwards_of(scope, functions_of(tree), names))[:MOST_CALLS],
        handlers=_of_file(tree, handlers),
        stores=_of_file(tree, stores),
        ends_loops=_of_file(tree, ends_loops),
        by_threads=_of_file(tree, by_threads),
        hooks=_of_file(tree, hooks),
        groups=_of_file(tree, groups),
        unwritten=_of_file(tree, unwritten),
        awaits=tuple(awaits(tree, statement)),
        objects=tuple(objects(tree, statement, scope, owner, names)) if is_program(frame.file) else (),
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _path(tree: ast.Module, line: int) -> list[_Step]:
    """From the module to the innermost statement that holds the line. Without recursion."""
    path: list[_Step] = []
    node: ast.AST = tree
    while True:
        step = None
        for part, child in children(node):
            if _first_line(child) <= line <= (getattr(child, "end_lineno", None) or 0):
                step = (part, child)
        if step is None:
            return path
        if path:
            path[-1] = _Step(path[-1].node, step[0])
        path.append(_Step(step[1], ""))
        node = step[1]


def _first_line(node: ast.AST) -> int:
    """A decorated function begins with its decorators, which belong to what is around it."""
    return int(getattr(node, "lineno", 1 << 30))


def _enclosing(path: Sequence[_Step], names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The compound statements around the line, innermost first, up to the function."""
    skip = False
    for number in range(len(path) - 2, -1, -1):
        step = path[number]
        enclosing = _as_enclosing(step, names)
        if skip:  # the `if` of the `elif` before says nothing more
            enclosing, skip = None, False
        if enclosing is not None and number and enclosing.kind == "if" and _is_elif(step.node, path[number - 1].node):
            enclosing, skip = Enclosing("elif", enclosing.line, enclosing.text, enclosing.asks), True
        if enclosing is not None:
            yield enclosing
        if isinstance(step.node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from by_rank.decorated(step.node)
            return


def _is_elif(node: ast.AST, parent: ast.AST) -> bool:
    """An `elif` is an `if` alone in the `else` of another, and begins where that does."""
    return (
        isinstance(node, ast.If)
        and isinstance(parent, ast.If)
        and parent.orelse == [node]
        and node.col_offset == parent.col_offset
    )


def _as_enclosing(step: _Step, names: by_rank.ByRank | None = None) -> Enclosing | None:
    node, part = step
    line = int(getattr(node, "lineno", 0))
    if isinstance(node, ast.If):
        asks = names.asks(node.test) if names is not None else ""
        return Enclosing("if" if part == "body" else "else", line, text_of(node.test), asks)
    if isinstance(node, ast.For | ast.AsyncFor):
        text = f"{text_of(node.target)} in {text_of(node.iter)}"
        return structs.replace(_counted(node), kind="for", line=line, text=text) if part == "body" else None
    if isinstance(node, ast.While):
        return (
            structs.replace(_counted(node), kind="while", line=line, text=text_of(node.test))
            if part == "body"
            else None
        )
    if isinstance(node, ast.With | ast.AsyncWith):
        return Enclosing("with", line, cut(", ".join(text_of(item.context_expr) for item in node.items)))
    if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        kind = {"finalbody": "finally", "body": "try", "handlers": "try"}.get(part)
        return Enclosing(kind, line) if kind and part != "handlers" else None
    if isinstance(node, ast.ExceptHandler):
        return Enclosing("except", line, text_of(node.type) if node.type is not None else "")
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        own = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        return Enclosing("function", line, node.name[:LONGEST_TEXT], gives=tuple(map(cut, own[:MOST_PARAMETERS])))
    if type(node).__name__ == "Match":
        return Enclosing("if", line, text_of(node.subject))  # type: ignore[attr-defined]
    return None


def _counted(loop: ast.For | ast.AsyncFor | ast.While) -> Enclosing:
    """By which variable a loop counts its rounds: `step += 1`, which nothing above it in the body goes round; and what
    it yields, of a generator's."""
    yields = tuple(itertools.islice(_yielded(loop), MOST_YIELDED))
    for statement in loop.body:
        if (
            isinstance(statement, ast.AugAssign)
            and isinstance(statement.op, ast.Add)
            and isinstance(statement.target, ast.Name | ast.Attribute)
            and isinstance(statement.value, ast.Constant)
            and statement.value.value == 1
        ):
            return Enclosing("", 0, gives=yields, counter=text_of(statement.target), counted_at=statement.lineno)
        if any(isinstance(node, ast.Continue) for node in ast.walk(statement)):
            break
    return Enclosing("", 0, gives=yields)


def _yielded(loop: ast.AST) -> Iterator[str]:
    for found in walk(loop):
        for node in called(found.node):
            if isinstance(node, ast.Yield | ast.YieldFrom):
                yield text_of(node.value) if node.value is not None else "None"


def _within(statement: ast.stmt, line: int, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """Conditions inside of a simple statement: `master and barrier()`, `save() if master else 0`, `TABLE[rank]()`."""
    if hasattr(statement, "body"):
        return
    given = {id(node) for call in ast.walk(statement) for node in _given_to(call)}
    short = {id(each): call for call in ast.walk(statement) for each in _asked_in_turn(call)}
    given -= {id(node) for node in ast.walk(statement) if id(node) in short}
    for node in ast.walk(statement):
        if id(node) in given:
            continue
        if isinstance(node, ast.BoolOp) and isinstance(node.values[-1], ast.Call):
            before = node.values[:-1]
            test = before[0] if len(before) == 1 else ast.BoolOp(node.op, before)
            kind = "if" if isinstance(node.op, ast.And) else "else"
            yield Enclosing(kind, line, text_of(test), names.asks(test))
        elif isinstance(node, ast.IfExp) and (isinstance(node.body, ast.Call) != isinstance(node.orelse, ast.Call)):
            kind = "if" if isinstance(node.body, ast.Call) else "else"
            yield Enclosing(kind, line, text_of(node.test), names.asks(node.test))
        elif isinstance(node, ast.Call) and names.chooses(node.func):
            yield Enclosing("if", line, text_of(node.func), by_rank.CHOSEN)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            if any(isinstance(part, ast.Call) and not _is_harmless(part) for each in made for part in ast.walk(each)):
                if id(node) in short:  # it ends at the first that this rank finds so
                    yield Enclosing("if", line, text_of(short[id(node)]))
                    continue
                over = node.generators[-1]
                yield Enclosing("for", line, cut(f"{text_of(over.target)} in {text_of(over.iter)}"))


def _asked_in_turn(call: ast.AST) -> Iterator[ast.AST]:
    """What `any` and `all` ask one after the other."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("any", "all"):
        yield from (each for each in call.args if isinstance(each, ast.GeneratorExp))


def _given_to(call: ast.AST) -> Iterator[ast.AST]:
    """What a call is given: a condition in that is none of the call itself. Of what waits for nothing (`print`), the
    line's wait is in what it is given."""
    if isinstance(call, ast.Call) and not _is_harmless(call):
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            yield from ast.walk(argument)


def _is_harmless(call: ast.Call) -> bool:
    name = text_of(call.func).rpartition(".")[2]
    return name in HARMLESS_METHODS or (isinstance(call.func, ast.Name) and name in PLAIN)


# ---------------------------------------------------------------- ways past the line


def _loop_of(path: Sequence[_Step]) -> ast.For | ast.AsyncFor | ast.While | None:
    """The innermost loop around the line."""
    return next(
        (
            step.node
            for step in reversed(path[:-1])
            if isinstance(step.node, ast.For | ast.AsyncFor | ast.While) and step.part == "body"
        ),
        None,
    )


def _exits(path: Sequence[_Step], scope: ast.AST, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """What passes the line by: in the innermost loop around it, else in the function."""
    loop = _loop_of(path)
    region = loop if loop is not None else scope
    around = {id(step.node) for step in path}
    for found in walk(region, names):
        node = found.node
        at = int(getattr(node, "lineno", 0))
        guard, asks = (cut(found.guards[-1][0]), found.guards[-1][1]) if found.guards else ("", "")
        if isinstance(node, ast.Return) and id(node) not in around:
            yield Enclosing("return", at, guard, asks)
        elif isinstance(node, ast.Continue | ast.Break) and loop is not None and not found.in_loop:
            yield Enclosing("continue" if isinstance(node, ast.Continue) else "break", at, guard, asks)
        elif isinstance(node, ast.ExceptHandler) and _swallows(node) and id(node) not in around:
            yield Enclosing("pass", at, text_of(node.type) if node.type is not None else "")
        elif isinstance(node, ast.With) and (suppressed := _suppressed(node)):
            yield Enclosing("pass", at, suppressed)
    # An exception that is caught around the loop ends it early.
    before = next((at for at, step in enumerate(path) if step.node is loop), 0)
    tries = (step.node for step in reversed(path[:before]) if isinstance(step.node, ast.Try) and step.part == "body")
    for handler in (handler for node in tries for handler in node.handlers if _swallows(handler)):
        if (caught := text_of(handler.type) if handler.type is not None else "") not in ENDS_A_LOOP:
            yield Enclosing("caught", handler.lineno, caught)


def _outer_exits(path: Sequence[_Step], names: by_rank.ByRank) -> Iterator[Enclosing]:
    """What leaves the loops further out, or goes round them, beside what is in the innermost one."""
    loops = [
        step.node
        for step in reversed(path[:-1])
        if isinstance(step.node, ast.For | ast.AsyncFor | ast.While) and step.part == "body"
    ]
    early = () if not loops or not path else walk(path[0].node, names)
    for found in early:  # what leaves the function above its loops
        node, outermost = found.node, int(getattr(loops[-1], "lineno", 0))
        if isinstance(node, ast.Return) and node.lineno < outermost and found.guards:
            yield Enclosing("return", node.lineno, cut(found.guards[-1][0]), found.guards[-1][1])
    for inner, loop in itertools.pairwise(loops):
        first, last = int(getattr(inner, "lineno", 0)), int(getattr(inner, "end_lineno", 0))
        for found in walk(loop, names):
            node = found.node
            at = int(getattr(node, "lineno", 0))
            guard, asks = (cut(found.guards[-1][0]), found.guards[-1][1]) if found.guards else ("", "")
            if first <= at <= last:
                continue
            if isinstance(node, ast.Return):
                yield Enclosing("return", at, guard, asks)
            elif isinstance(node, ast.Break) and not found.in_loop:
                yield Enclosing("break", at, guard, asks)


ENDS_A_LOOP = ("StopIteration", "KeyboardInterrupt", "GeneratorExit", "queue.Empty", "Empty")
"""What is caught where nothing has failed."""


def _swallows(handler: ast.ExceptHandler) -> bool:
    """It neither leaves nor always raises: the program may go on behind the `try`, whatever did not happen in it."""
    last = handler.body[-1]
    leaves = isinstance(last, ast.Return | ast.Continue | ast.Break)
    return not leaves and not any(isinstance(statement, ast.Raise) for statement in handler.body)


def _suppressed(node: ast.With) -> str:
    """The exceptions of `with contextlib.suppress(...)`."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and text_of(call.func).rpartition(".")[2] == "suppress":
            return cut(", ".join(text_of(argument) for argument in call.args))
    return ""


def _line_text(statement: ast.AST, line: int) -> str:
    """The line's own part of its statement: all of a simple one, the head of a compound one."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return cut(f"def {statement.name}")
    if isinstance(statement, ast.ClassDef):
        return cut(f"class {statement.name}")
    for field in ("test", "iter", "items", "subject"):
        held = getattr(statement, field, None)
        if held is not None and (hasattr(statement, "body") or hasattr(statement, "cases")):
            word = {"If": "if", "While": "while", "Match": "match"}.get(type(statement).__name__)
            enclosing = _as_enclosing(_Step(statement, "body"))
            return cut(f"{word or (enclosing.kind if enclosing else '')} {enclosing.text if enclosing else ''}".strip())
    if hasattr(statement, "body"):
        return ""
    return text_of(statement)
