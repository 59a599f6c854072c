"""A Python text as rules follow it: its tree, what its names mean by its imports, which functions it defines.

Python's own parser reads it, and nothing of it is run or imported.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LinkedModule, LintJob, LintLaunch, Span, TextSection
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.python_text import parsed, walked

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
CONVENTION = {
    "torch": "torch", "nn": "torch.nn", "mp": "torch.multiprocessing", "dist": "torch.distributed",
    "DataParallel": "torch.nn.DataParallel", "DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "DDP": "torch.nn.parallel.DistributedDataParallel", "init_process_group": "torch.distributed.init_process_group",
    "DistributedSampler": "torch.utils.data.distributed.DistributedSampler", "os": "os",
}  # fmt: skip
"""What the names of a pasted line mean that brings no import along: as torch's own documentation imports them."""
USUAL = lazy_re(r"__name__|\.is_available\(\)")
"""In conditions that hold wherever somebody trains."""
AMBIGUOUS = "?"
MOST_STARTS = 16
"""Starts of one program that are looked at together."""
DEEPEST = 200
"""Attributes in a row that a name may have."""


class PythonCode:
    """One Python text, where it stands in the whole."""

    def __init__(
        self, text: str, tree: ast.Module, start: int, line: int, modules: Sequence[LinkedModule] = ()
    ) -> None:
        """`modules`: whose texts stand in front of its own; `start` and `line` are of what follows them."""
        self.text = text
        self.tree = tree
        self.start = start
        self.line = line
        self._stretches: list[tuple[int, int, int, int]] = []
        """Where each file begins in this text, and where in the places of the job: offset, row, start, line."""
        at, row = 0, 1
        for module in modules:
            self._stretches.append((at, row, module.start, module.line))
            at, row = at + len(module.written) + 1, row + module.written.count("\n") + 1
        self._stretches.append((at, row, start, line))
        self._rows_elsewhere = row - 1
        self._rows = [0, *(found.end() for found in re.finditer("\n", text))]
        self._encoded = [] if text.isascii() else [part.encode("utf-8", "surrogatepass") for part in text.split("\n")]
        self.nodes = tuple(walked(tree))
        self.calls = tuple(
            sorted(
                (node for node in self.nodes if isinstance(node, ast.Call)),
                key=lambda each: (self.is_elsewhere(each), each.lineno, each.col_offset),
            )
        )
        """In their order; those of other files behind its own."""
        self.functions = {node.name: node for node in tree.body if isinstance(node, FUNCTIONS)}
        self.imports: dict[str, str] = {}
        for name, meaning in imports_of(self.nodes):  # of two meanings (try: apex, except: torch) neither is certain
            same = self.imports.get(name, meaning).rpartition(".")[::2]
            alike = same == meaning.rpartition(".")[::2] or (name == "*" or _both_torch(same[0], meaning))
            self.imports[name] = meaning if alike else AMBIGUOUS
        self.own = (
            frozenset(node.name for node in self.nodes if isinstance(node, (ast.ClassDef, *FUNCTIONS)))
            - self.imports.keys()
        )
        self._names: dict[ast.expr, str] = {}
        """Of nodes that were asked for: most rules ask for each call's."""
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def at(self, row: int, column: int) -> int:
        """Row (from 1) and column in bytes -> offset in this text."""
        if self._encoded and row <= len(self._encoded):
            column = len(self._encoded[row - 1][:column].decode("utf-8", "replace"))
        return self._rows[row - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        begin, end = self.ends(node)
        offset, _, start, _ = self._stretch(node.lineno)
        return Span(start + begin - offset, start + end - offset, self.line_at(node))

    def _stretch(self, row: int) -> tuple[int, int, int, int]:
        return next(each for each in reversed(self._stretches) if each[1] <= row)

    def is_elsewhere(self, node: ast.AST) -> bool:
        """Whether it stands in a module, and not in the program."""
        return getattr(node, "lineno", 1) <= self._rows_elsewhere

    def holds(self, line: int) -> bool:
        """Whether a line of the job's places is one of its own or of a module's."""
        rows = [*(first for _, first, _, _ in self._stretches[1:]), len(self._rows) + 1]
        return any(
            line_ <= line < line_ + end - first for (_, first, _, line_), end in zip(self._stretches, rows, strict=True)
        )

    def line_at(self, node: ast.AST) -> int:
        """The line in the whole text, or that of a module's place."""
        row = getattr(node, "lineno", 1)
        _, first, _, line = self._stretch(row)
        return line + row - first

    def line_of(self, node: ast.AST) -> str:
        """For a sentence: "line 12"."""
        return str(self.line_at(node))

    def words(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """As written."""
        begin, end = self.ends(node)
        return self.text[begin:end]

    def text_of(self, node: ast.ClassDef) -> str:
        """A class as written."""
        return ast.get_source_segment(self.text, node) or ""

    def ends(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Offsets in its text."""
        end = self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.at(node.lineno, node.col_offset), end

    def name(self, node: ast.expr) -> str:
        """The whole name by the imports ("torch.nn.DataParallel"); empty where the text does not tell it."""
        known = self._names.get(node)
        if known is None:
            known = self._names[node] = self._named(node)
        return known

    def _named(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < DEEPEST:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.own:
            return ""
        root = self.imports.get(node.id) or (CONVENTION.get(node.id, "") if "*" not in self.imports else "")
        return ".".join((root, *reversed(parts))) if root else ""

    def torch_name(self, node: ast.expr) -> str:
        """The last part of a name of torch's: "DataParallel" of torch.nn.parallel.DataParallel. Else empty."""
        found = self.name(node)
        return found.rpartition(".")[2] if found.startswith("torch.") else ""

    def brings(self, *packages: str) -> bool:
        """Whether it imports any of these packages."""
        return any(each.partition(".")[0] in packages for each in self.imports.values())

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What it stands in, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def scope_of(self, node: ast.AST) -> ast.AST:
        """The function, class body's function or module in which it stands."""
        scopes = (above for above in self.around(node) if isinstance(above, (*FUNCTIONS, ast.Lambda, ast.Module)))
        return next(scopes, self.tree)

    def is_called(self, scope: ast.AST) -> bool:
        """Whether a function of the text is certainly called: by the module itself, or by one that is."""
        waiting, done = [scope], {scope}
        while waiting:
            function = waiting.pop()
            for node in self.nodes:
                use = isinstance(node, ast.Name) and node.id == getattr(function, "name", None)
                call = self.parents.get(node) if use else None
                if not isinstance(call, ast.Call) or call.func is not node or self.is_conditional(call):
                    continue
                outer = self.scope_of(call)
                if isinstance(outer, ast.Module):
                    return True
                if outer not in done:
                    done.add(outer)
                    waiting.append(outer)
        return False

    def is_whole(self) -> bool:
        """Whether it makes every name that it uses, so that nothing of the program is elsewhere."""
        known = self.imports.keys() | self.own | vars(builtins).keys() | {"__file__", "__name__"}
        handed = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        made: dict[str, int] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                in_line = isinstance(self.parents.get(node), ast.Assign)
                made[node.id] = min(made.get(node.id, node.lineno), node.lineno if in_line else 0)
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known:
                is_outside = isinstance(self.scope_of(node), ast.Module)
                is_made = node.id in made and not (is_outside and node.lineno <= made[node.id])
                if not is_made and (is_outside or node.id not in handed):
                    return False
        return True

    def is_conditional(self, node: ast.AST) -> bool:
        """Whether it stands below a condition other than `__name__ == "__main__"` and `torch.cuda.is_available()`."""
        below: ast.AST = node
        for above in self.around(node):
            if isinstance(above, (*FUNCTIONS, ast.Module)):
                return False
            usual = isinstance(above, (ast.If, ast.IfExp)) and USUAL.search(ast.unparse(above.test)) is not None
            is_choice = isinstance(above, (ast.If, ast.IfExp, ast.Try, ast.While, ast.BoolOp))
            if is_choice and not usual and below is not getattr(above, "test", None):
                return True
            below = above
        return False


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """A name, and what it means. "*": something that is not torch's brings names that are not told."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield (name.asname, name.name) if name.asname else ((name.name.partition(".")[0],) * 2)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for name in node.names:
                if name.name != "*":
                    yield name.asname or name.name, f"{module}.{name.name}"
                elif not module.startswith("torch"):
                    yield "*", module


def _both_torch(one: str, other: str) -> bool:
    return one.partition(".")[0] == "torch" == other.partition(".")[0]


@lru_cache(maxsize=64)
def read_code(text: str, start: int = 0, line: int = 1, modules: tuple[LinkedModule, ...] = ()) -> PythonCode | None:
    """None: it does not parse. `start` and `line`: where it stands in the whole text. `modules`: what the program
    imports of its own (`gpudoctor.lint.linking`)."""
    whole = "".join((*(f"{module.written}\n" for module in modules), text))
    if "\f" in whole or "\r" in whole.replace("\r\n", ""):  # Python counts other lines then
        return None
    tree = parsed(whole)
    try:
        return PythonCode(whole, tree, start, line, modules) if isinstance(tree, ast.Module) else None
    except RecursionError:
        return None


def codes(job: LintJob) -> Iterator[PythonCode]:
    """Every Python text."""
    for each, _ in codes_and_starts(job):
        yield each


def codes_and_starts(job: LintJob) -> Iterator[tuple[PythonCode, tuple[LintLaunch, ...]]]:
    """Every Python text, and the launches of the text that start it."""
    yield from _codes_and_starts(job)


@once_a_job
def _codes_and_starts(job: LintJob) -> tuple[tuple[PythonCode, tuple[LintLaunch, ...]], ...]:
    found: list[tuple[PythonCode, tuple[LintLaunch, ...]]] = []
    for section in job.sections:
        alone = job.kind == "python" and section.kind != "file"
        if not alone and not (section.kind == "file" and section.name.endswith(".py")):
            continue
        code = code_of(job, section)
        if code is None:
            continue
        starts = (launch for launch in job.launches if section.name and starts_file(launch, section.name))
        found.append((code, tuple(islice(starts, MOST_STARTS))))
    return tuple(found)


def starts_file(launch: LintLaunch, file: str) -> bool:
    """Whether a launch may start this file: by its name, and where both tell folders by these. A path from the root
    may be one of a container, a variable anything."""
    if launch.script is None or launch.program_file != file.rpartition("/")[2]:
        return False
    script = f"{launch.script.shown.replace('.', '/')}.py" if launch.module else launch.script.shown
    if script.startswith(("/", "~")) or any(sign in script for sign in ("$", "..", "`")):
        return True
    told, here = (re.sub(r"^(?:\./)+", "", each).split("/")[::-1] for each in (script, file))
    return all(one == other for one, other in zip(told, here, strict=False))


def code_of(job: LintJob, section: TextSection) -> PythonCode | None:
    """A Python text of the job, with what it imports of its own."""
    linked = (each for each in job.linked if each.text == section.text)
    whole = (read_code(each.own, section.start, section.line, each.modules) for each in linked)
    return next(whole, None) or read_code(section.text, section.start, section.line)


def constant(node: ast.expr | None) -> object:
    """The value of an expression that is a constant, or a list of such; None for what is none."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a call, by its name or its place; None where it is not there, or stars hide it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or position >= len(call.args) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    return call.args[position]


def has_stars(call: ast.Call) -> bool:
    """Whether `*` or `**` may bring more arguments than are seen."""
    return any(keyword.arg is None for keyword in call.keywords) or any(
        isinstance(arg, ast.Starred) for arg in call.args
    )


def numbers(node: ast.expr | None) -> list[int] | None:
    """The whole numbers of `[0, 3]`, `(0, 3)`, `range(4)`, `list(range(4))`; None of anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        if node.func.id == "list":
            return numbers(node.args[0])
        count = constant(node.args[0])
        if node.func.id == "range" and type(count) is int and 0 < count <= 64:
            return list(range(count))
        return None
    value = constant(node)
    if isinstance(value, (list, tuple)) and value and all(type(each) is int for each in value):
        return list(value)
    return None


@lru_cache(maxsize=256)  # most rules look through each scope of a program
def own_nodes(scope: ast.AST) -> Sequence[ast.AST]:
    """What a function or module holds itself, without the functions and classes that are defined in it."""
    held: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))[::-1]
    while waiting:
        node = waiting.pop()
        held.append(node)
        if not isinstance(node, SCOPES):
            waiting.extend(list(ast.iter_child_nodes(node))[::-1])
    return tuple(held)
