"""What a program calls between the statement that wrote a rank's last words and the line to which it did not come.

Of a rank that is gone its last words are left, and where the others waited for it. What has kept it lies between, in
the program's text. Calls are taken by their names, and one of which it is not known whether it waits is told as well:
it may be the one. Nothing is executed.
"""

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from gpudoctor.knowledge.call_waits import (
    HARMLESS_MADE,
    HARMLESS_METHODS,
    HARMLESS_ROOTS,
    KNOWN_WAITS,
    NAMED_BY,
    PLAIN,
)
from gpudoctor.knowledge.on_the_way import CALL, LOOP, ON_CPU, SINCE
from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.source_text import cut, text_of
from gpudoctor.read.job.source_walk import children, functions_of, walk
from gpudoctor.snapshot.evidence import Enclosing, Frame

DEEPEST, MOST = 4, 12
"""Functions that call each other, and calls that are told."""
LEAST_WORDS = 4
"""Letters that a statement and a line must have in common (our rule of thumb)."""
SPEAKS = frozenset(("print", "info", "debug", "warning", "log", "error", "write", "echo", "log_info", "print_rank_0"))
LOOPS = (ast.For, ast.AsyncFor, ast.While)
LEAVES = (ast.Break, ast.Return)
SLEEPS = lazy_re(r"^(?:time\.|asyncio\.|gevent\.)?sleep$")
LONG_SLEEP = 60.0
"""Seconds of a sleep from which it is told; one whose length stands elsewhere may be as long."""
FILE_THERE = lazy_re(r"\b(?:l?exists|is_?file|is_?dir)\(")
COLLECTIVE = lazy_re(r"^(?:torch\.distributed|dist|c10d)\.(?P<name>\w+)$")
ASKS_ONLY = frozenset(("get_rank", "get_world_size", "is_initialized", "is_available", "get_backend"))
Level = tuple[ast.AST, str, Sequence[ast.AST], int]
"""A statement's place in the block that holds it: whose block, which one, its statements, and the number of it."""


Passage = tuple[Enclosing, ...]
"""What lies between: where it begins ("since"), calls and loops that wait for something by what that is ("queue",
"service", "file lock", ...), calls of which it is not known ("call"), and loops that compute ("loop"): what they go
through is there, or each round changes what they ask."""


def passage(
    tree: ast.Module, stack: Sequence[Frame], said: str, further: int, *, hooked: bool = False
) -> Passage | None:
    """`stack`: of a rank that waited, innermost first, frames of this file. `further`: rounds by which it is ahead of
    the last words. `hooked`: it waited in what hooks have started in the backward of that line. None where no statement
    of these functions has written them, or several may have; or where it would have written others since."""
    for number, frame in enumerate(stack):
        scope = _scope(tree, frame)
        spoken = [each.node for each in walk(scope) if says(each.node, said)] if scope is not None else []
        if scope is None or not spoken:
            continue
        if len(spoken) > 1:
            return None
        line = int(getattr(spoken[0], "lineno", 0))
        inner = [
            levels for each in stack[:number] if (own := _scope(tree, each)) and (levels := _levels(own, each.line))
        ]
        region = _between(_levels(scope, line), _levels(scope, frame.line), inner, further)
        if region is None:
            return None
        if further == 1:
            before = _between(_levels(scope, line), _levels(scope, frame.line), inner, 0)
            if before is not None and any(map(_is_written_at_once, before)):
                return None
        seen = _Seen(tree)
        for node in region:
            if _is_written_at_once(node):
                return seen.passage(line)  # these would be its last words
            seen.look(node, 0)
        if hooked:
            seen.others.append(Enclosing(CALL, frame.line, "backward"))
        return seen.passage(line)
    return None


def _is_written_at_once(node: ast.AST) -> bool:
    """`print(..., flush=True)`, which is in the log where it was come to."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or text_of(call.func) != "print":
        return False
    given = {each.arg: each.value for each in call.keywords}
    flush = given.get("flush")
    return isinstance(flush, ast.Constant) and flush.value is True and given.keys() <= {"flush", "end", "sep"}


def passage_after(tree: ast.Module, stack: Sequence[Frame], last: Sequence[Frame]) -> Passage | None:
    """The same behind the call of the last collective that a rank has come to, by its recorder: of further ones on the
    way it has come to none. `last`: the stack of that call."""
    for number, frame in enumerate(stack):
        at = next((index for index, own in enumerate(last) if own.function == frame.function), None)
        scope = _scope(tree, frame)
        if at is None or scope is None or _scope(tree, last[at]) is not scope:
            continue
        over, behind = (
            [levels for each in frames if (own := _scope(tree, each)) and (levels := _levels(own, each.line))]
            for frames in (stack[:number], last[:at])
        )
        region = _between(_levels(scope, last[at].line), _levels(scope, frame.line), over, 0, behind)
        if region is not None:
            seen = _Seen(tree, recorded=True)
            for node in region:
                seen.look(node, 0)
            return seen.passage(last[at].line)
    return None


def _scope(tree: ast.Module, frame: Frame) -> ast.AST | None:
    if frame.function == "<module>":
        return tree
    name = frame.function.rpartition(".")[2]
    holds = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == name
        and node.lineno <= frame.line <= (node.end_lineno or 0)
    )
    return next(holds, None)


# ---------------------------------------------------------------- who has said it


def says(statement: ast.AST, said: str) -> bool:
    """Whether a statement writes such a line: its own words are in it, in their order."""
    if not isinstance(statement, ast.Expr) or not isinstance(call := statement.value, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in SPEAKS or not call.args:
        return False
    parts = [piece for argument in call.args for piece in _pieces(argument)]
    words = "".join(part for part in parts if part is not None)
    if sum(map(str.isalpha, words)) < LEAST_WORDS:
        return False
    own, at = " ".join(said.split()), 0
    written = [" ".join((part or "").split()) for part in parts]
    for part in filter(None, written):
        found_at = own.find(part, at)
        if found_at < 0:
            return False
        at = found_at + len(part)
    return own.endswith(written[-1])


_FIELDS = lazy_re(r"%[-+ #0-9.]*[sdifgrx]|\{[^{}]{0,40}\}")


def _pieces(node: ast.AST) -> Iterator[str | None]:
    """The words of a text, None for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield str(part.value) if isinstance(part, ast.Constant) else None
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for index, words in enumerate(_FIELDS.split(node.value)):
            if index:
                yield None
            yield words
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _pieces(node.left)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from _pieces(node.func.value)
    else:
        yield None


# ---------------------------------------------------------------- what lies between


def _levels(scope: ast.AST, line: int) -> list[Level]:
    """Where a line stands, from the outermost block of a function inwards."""
    levels: list[Level] = []
    node = scope
    while True:
        holds = (
            (part, child)
            for part, child in children(node)
            if child.lineno <= line <= (child.end_lineno or 0)  # type: ignore[attr-defined]
        )
        part, child = next(holds, ("", node))
        if not part:
            return levels
        block = [each for own, each in children(node) if own == part]
        levels.append((node, part, block, block.index(child)))
        node = child


def _between(
    said: list[Level],
    waited: list[Level],
    inner: Sequence[list[Level]],
    further: int,
    behind: Sequence[list[Level]] | None = None,
) -> list[ast.AST] | None:
    """The statements between the two. `inner`: where those who wait stand in functions called from there. `behind`:
    where the first of them stood in such functions; then both may be one statement, a round apart."""
    common = 0
    for mine, theirs in zip(said, waited, strict=False):
        if mine[0] is not theirs[0] or mine[1] != theirs[1]:
            return None
        if mine[3] != theirs[3]:
            break
        common += 1
    else:
        if behind is None or len(said) != len(waited) or not common:
            return None
        common -= 1
    if further not in (0, 1):
        return None
    start, end = (said, waited) if further == 0 else (waited, said)
    over = [each for levels in inner for each in (_before(levels) if end is waited else _after(levels))]
    first = [each for levels in behind or () for each in _after(levels)]
    target = [end[-1][2][end[-1][3]]] if end is said else []
    if start[common][3] < end[common][3]:
        block = start[common][2][start[common][3] + 1 : end[common][3]]
        return [*first, *over * (start is waited), *_after(start[common + 1 :]), *block, *_before(end[common + 1 :]),
                *target, *over * (end is waited)]  # fmt: skip
    loops = [number for number in range(common + 1) if isinstance(said[number][0], LOOPS) and said[number][1] == "body"]
    if not loops:
        return None
    top = loops[-1]
    asks = said[top][0]
    head: list[ast.AST] = [asks.test] if isinstance(asks, ast.While) else [asks.iter]  # type: ignore[attr-defined]
    rest, begin = start[top][2][start[top][3] + 1 :], end[top][2][: end[top][3]]
    round_ = [*_after(start[top + 1 :]), *rest, *head, *begin, *_before(end[top + 1 :])]
    return [*first, *over * (start is waited), *round_, *target, *over * (end is waited)]


def _after(levels: Sequence[Level]) -> Iterator[ast.AST]:
    """What follows a line in the blocks around it; of a loop, all of it."""
    for node, part, block, index in reversed(levels):
        yield from block if isinstance(node, LOOPS) and part == "body" else block[index + 1 :]


def _before(levels: Sequence[Level]) -> Iterator[ast.AST]:
    """What is gone through on the way to a line: what the statements around it ask, or take, first."""
    for node, part, block, index in levels:
        if part == "body" and isinstance(node, ast.With | ast.AsyncWith):
            yield from node.items
        elif isinstance(node, ast.If | ast.While):
            yield node.test
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield node.iter
        yield from block[:index]


# ---------------------------------------------------------------- what of it waits


class _Seen:
    def __init__(self, tree: ast.Module, *, recorded: bool = False) -> None:
        self._recorded = recorded
        self.waits: list[Enclosing] = []
        self.others: list[Enclosing] = []
        self.loops: list[Enclosing] = []
        self._functions = functions_of(tree)
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self._made = dict(_made(tree))
        self._groups_on_cpu = _makes_groups_on_cpu(tree)
        self._looked: set[int] = set()

    def passage(self, said_at: int) -> Passage:
        told = (each for some in (self.waits, self.others, self.loops) for each in some[:MOST])
        return (Enclosing(SINCE, said_at), *told)

    def look(self, node: ast.AST, depth: int, *, always: bool = True) -> None:
        """A statement or an expression, in the order in which its parts run. `always`: it is under no condition."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            return
        if isinstance(node, LOOPS) and (kind := self._waits_in_loop(node)):
            text = f"while {text_of(node.test)}" if isinstance(node, ast.While) else f"for {text_of(node.target)}"
            self._told(kind, node, text)
            return
        if isinstance(node, ast.withitem) and (kind := self._kind_of_lock(node.context_expr)):
            self._told(kind, node.context_expr, f"with {text_of(node.context_expr)}")
            return
        if isinstance(node, ast.For) or (isinstance(node, ast.While) and _changes_what_it_asks(node)):
            self.loops.append(Enclosing(LOOP, node.lineno))
        inside = always and not isinstance(
            node, ast.If | ast.IfExp | ast.BoolOp | ast.ExceptHandler | ast.For | ast.While
        )
        for child in ast.iter_child_nodes(node):
            self.look(child, depth, always=inside)
        if isinstance(node, ast.Call):
            self._call(node, depth, always)

    def _told(self, kind: str, node: ast.AST, text: str) -> None:
        self.waits.append(Enclosing(kind, int(getattr(node, "lineno", 0)), cut(text)))

    def _waits_in_loop(self, loop: ast.AST) -> str:
        """What a loop waits for that sleeps between its rounds; "" of one that does not."""
        calls = [each for each in ast.walk(loop) if isinstance(each, ast.Call)]
        if not any(SLEEPS.search(text_of(call.func)) for call in calls):
            return ""
        if isinstance(loop, ast.While) and FILE_THERE.search(text := text_of(loop.test)):
            return "file" if text.startswith("not ") else "file lock"
        kinds = [kind for call in calls if (kind := self._kind(call)) not in ("", "sleep", "harmless", "collective")]
        return kinds[0] if kinds else "tries again"

    def _call(self, call: ast.Call, depth: int, always: bool) -> None:
        kind = self._kind(call)
        if kind == "harmless":
            return
        of_all = not any(keyword.arg == "group" for keyword in call.keywords)
        if kind == "collective" and of_all and self._recorded:
            return
        if kind == "collective" and always and of_all:
            # It has come to all that have a smaller number than the one in which the others wait.
            for passed in (self.waits, self.others, self.loops):
                passed.clear()
            return
        kind = ("" if of_all or not self._groups_on_cpu else ON_CPU) if kind == "collective" else kind
        if kind:
            self._told(kind, call, text_of(call))
        elif (own := self._own(call)) is None:
            self.others.append(Enclosing(CALL, call.lineno, text_of(call)))
        elif depth < DEEPEST and id(own) not in self._looked:
            self._looked.add(id(own))
            for _, child in children(own):
                self.look(child, depth + 1, always=always)

    def _own(self, call: ast.Call) -> ast.AST | None:
        """The function of this file that is called."""
        function = call.func
        if isinstance(function, ast.Name) and function.id in self._classes:
            body = self._classes[function.id].body
            made = (each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
            return next(made, ast.Pass())
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        return self._functions.get(name)

    def _kind(self, call: ast.Call) -> str:
        """What a call waits for; "harmless" of one that does not; "" where that is not known."""
        name, function = text_of(call.func), call.func
        if SLEEPS.search(name):
            seconds = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            told_elsewhere = bool(call.args) and isinstance(call.args[0], ast.Name | ast.Attribute | ast.Subscript)
            is_long = isinstance(seconds, int | float) and seconds >= LONG_SLEEP
            return "sleep" if told_elsewhere or is_long else "harmless"
        if self._own(call) is not None and (isinstance(function, ast.Name) or text_of(function.value) == "self"):  # type: ignore[attr-defined]
            return ""
        if known := next((kind for pattern, kind in KNOWN_WAITS if pattern.search(name)), ""):
            return known
        if isinstance(function, ast.Attribute):
            if collective := COLLECTIVE.search(name):
                return "harmless" if collective["name"] in ASKS_ONLY else "collective"
            receiver = text_of(function.value)
            last = receiver.rpartition(".")[2]
            # What a call in the same expression has made: `pool.submit(put).result()`.
            made = text_of(function.value.func) if isinstance(function.value, ast.Call) else self._made.get(last, "")
            if self._own(call) is not None and (not made or made in self._classes):
                return ""
            for pattern, methods, kind in NAMED_BY:
                if function.attr in methods and (pattern.search(made) or (not made and pattern.search(last))):
                    return kind
            if function.attr in ("get", "join") and not call.args:
                return ""
            root = receiver.partition(".")[0].partition("(")[0]
            if HARMLESS_MADE.search(made):
                return "harmless"
            return "harmless" if root in HARMLESS_ROOTS or function.attr in HARMLESS_METHODS else ""
        if isinstance(function, ast.Name):
            exception = function.id.endswith(("Error", "Exception", "Exit"))
            return "harmless" if (function.id in PLAIN or exception) and function.id not in self._functions else ""
        return ""

    def _kind_of_lock(self, node: ast.AST) -> str:
        made = (
            text_of(node.func) if isinstance(node, ast.Call) else self._made.get(text_of(node).rpartition(".")[2], "")
        )
        locks = ((pattern, kind) for pattern, methods, kind in NAMED_BY if "acquire" in methods)
        found = (kind for pattern, kind in locks if pattern.search(made or text_of(node).rpartition(".")[2]))
        return next((kind for kind in found if kind != "harmless"), "")


def _makes_groups_on_cpu(tree: ast.Module) -> bool:
    """Whether all groups that a file makes are gloo's."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and text_of(node.func).endswith("new_group")]
    backends = [next((each.value for each in call.keywords if each.arg == "backend"), None) for call in calls]
    return bool(calls) and all(isinstance(each, ast.Constant) and each.value == "gloo" for each in backends)


def _changes_what_it_asks(loop: ast.While) -> bool:
    """Else another thread has to do that, and the loop waits for it. A `while True` asks before it is left."""
    names = [node for node in ast.walk(loop) if isinstance(node, ast.Name)]
    tests = [loop.test]
    if isinstance(loop.test, ast.Constant):
        tests = [node.test for node in ast.walk(loop) if isinstance(node, ast.If) and isinstance(node.body[-1], LEAVES)]
    asked = {node.id for test in tests for node in ast.walk(test) if isinstance(node, ast.Name)}
    return any(isinstance(name.ctx, ast.Store) and name.id in asked for name in names)


def _made(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """By what call each name of the file was made: ("ready", "queue.Queue")."""
    for node in islice(ast.walk(tree), 100_000):
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            if isinstance(node.context_expr, ast.Call):
                yield node.optional_vars.id, text_of(node.context_expr.func)
            continue
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for target in targets if isinstance(value, ast.Call) else ():
            if isinstance(target, ast.Name | ast.Attribute) and isinstance(value, ast.Call):
                yield target.id if isinstance(target, ast.Name) else target.attr, text_of(value.func)
