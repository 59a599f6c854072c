"""A program and the modules of its own folders that it imports, made one text: what `utils.init()` does is known then.

    from engine import train          def train(...): ...          <- before: the modules
    import utils                 ->   def init(): ...
    utils.init()                      pass                         <- the program, of the same length as it was
    train()                           init      ()

Each module's names are taken into the program's. Where two mean different things by one name, the module is left out,
and what is imported from it stays unknown. Nothing is imported or run. What is found in a module is told at its place
there: `placed` gives every module of a job a stretch of its own behind all that the job's text may hold.
"""

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from gpudoctor.lint.model import MODULES_LINE, MODULES_START, LinkedModule, LinkedProgram, Span, TextSection
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, imports_of, read_code
from gpudoctor.lint.python_text import LONGEST_PARSED, parsed

MOST_MODULES = 24
Reader = Callable[[str], str | None]
"""The text of a file, or None where it is none, or must not be read."""


class LocalModule:
    """A file of the program, and the names that it makes at its top."""

    def __init__(self, path: str, code: PythonCode) -> None:
        self.path = path
        self.code = code
        self.made: dict[str, ast.stmt] = {}
        for statement in _at_top(code.tree.body):
            for name in _makes(statement):
                self.made.setdefault(name, statement)


class LocalImport(NamedTuple):
    """Of files of ours. `names`: what is taken out of `file` -> what it is called; `modules`: names of whole files."""

    node: ast.Import | ast.ImportFrom
    file: LocalModule | None
    names: dict[str, str]
    modules: dict[str, LocalModule]
    is_star: bool = False


def linked(path: str, text: str, read: Reader) -> LinkedProgram | None:
    """None where it imports nothing of its own, or what it would become is no program."""
    code = read_code(text)
    if code is None:
        return None
    program = _Program(LocalModule(path, code), read)
    taken = [module for module in program.order if module is not program.main and program.is_taken(module)]
    if not taken:
        return None
    modules = tuple(
        LinkedModule(each.path, each.code.text, program.written(each), program.through[each]) for each in taken
    )
    own = program.written(program.main)
    whole = "".join((*(f"{module.written}\n" for module in modules), own))
    if len(whole) > LONGEST_PARSED or parsed(whole) is None:
        return None
    return LinkedProgram(text=text, own=own, modules=modules)


def of_sections(sections: Sequence[TextSection]) -> tuple[LinkedProgram, ...]:
    """The programs of a text, with those of its own files that they import: what is told of these stands there."""
    files = {
        os.path.normpath(each.name): each for each in sections if each.kind == "file" and each.name.endswith(".py")
    }

    def read(path: str) -> str | None:
        return files[path].text if path in files else None

    def where(module: LinkedModule) -> LinkedModule:
        section = files[os.path.normpath(module.file)]
        return structs.replace(module, start=section.start, line=section.line)

    try:
        programs = [linked(name, each.text, read) for name, each in files.items()]
    except RecursionError:  # expressions of a thousand levels
        return ()
    return tuple(
        structs.replace(each, modules=tuple(map(where, each.modules))) for each in programs if each is not None
    )


def placed(programs: Sequence[LinkedProgram]) -> tuple[LinkedProgram, ...]:
    """Each file at one place of its own, whoever imports it."""
    places: dict[str, tuple[int, int]] = {}
    start, line = MODULES_START, MODULES_LINE
    for module in (each for program in programs for each in program.modules):
        if module.file not in places:
            places[module.file] = start, line
            start, line = start + len(module.text) + 1, line + module.text.count("\n") + 1

    def at_its_place(module: LinkedModule) -> LinkedModule:
        start, line = places[module.file]
        return structs.replace(module, start=start, line=line)

    return tuple(structs.replace(each, modules=tuple(map(at_its_place, each.modules))) for each in programs)


class _Program:
    """A program, with its modules in the order in which their statements run."""

    def __init__(self, main: LocalModule, read: Reader) -> None:
        self.main = main
        self._read = read
        self._known: dict[str, LocalModule | None] = {os.path.normpath(main.path): main}
        self._imports: dict[LocalModule, list[LocalImport]] = {}
        self._folder = os.path.dirname(main.path)  # noqa: PTH120 - a text, as the reader takes it
        self.order: list[LocalModule] = []
        self.through: dict[LocalModule, Span] = {}
        """The program's own import that led to a file first."""
        self._here = Span(0, 0, 1)
        self._follow(main)
        self._left_out: set[LocalModule] = set()
        self._part()

    def is_taken(self, module: LocalModule) -> bool:
        return module not in self._left_out

    def _follow(self, module: LocalModule) -> None:
        self._imports[module] = []
        for node in module.code.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if module is self.main:
                    self._here = module.code.span(node)
                found = self._import(module, node)
                if found is not None:
                    self._imports[module].append(found)
        self.order.append(module)

    def _import(self, module: LocalModule, node: ast.Import | ast.ImportFrom) -> LocalImport | None:
        if isinstance(node, ast.Import):
            if len(node.names) != 1:
                return None
            name = node.names[0]
            file = self._module(module, name.name, 0)
            return LocalImport(node, None, {}, {name.asname or name.name: file}) if file is not None else None
        file = self._module(module, node.module or "", node.level)
        names: dict[str, str] = {}
        modules: dict[str, LocalModule] = {}
        for each in node.names:
            if each.name == "*":
                return LocalImport(node, file, {}, {}, is_star=True) if file is not None else None
            inner = self._module(module, f"{node.module or ''}.{each.name}".strip("."), node.level)
            if inner is not None and (file is None or each.name not in file.made):
                modules[each.asname or each.name] = inner
            elif file is not None:
                names[each.name] = each.asname or each.name
            else:
                return None
        return LocalImport(node, file, names, modules)

    def _module(self, module: LocalModule, name: str, level: int) -> LocalModule | None:
        here = os.path.dirname(module.path)  # noqa: PTH120
        roots = [here, self._folder, os.path.dirname(self._folder)]  # noqa: PTH120 - of `python -m package.train`
        if level:
            roots = [os.path.normpath(os.path.join(here, *[".."] * (level - 1)))]  # noqa: PTH118
        parts = name.split(".") if name else []
        above, is_below, _ = f"/{self._folder}/".partition(f"/{parts[0]}/" if parts else "//")
        if is_below and not level:  # PYTHONPATH=. beside `python tools/train.py`
            roots.append(above[1:])
        for root in dict.fromkeys(roots):
            for file in (f"{os.path.join(root, *parts)}.py", os.path.join(root, *parts, "__init__.py")):  # noqa: PTH118
                if (found := self._file(os.path.normpath(file))) is not None:
                    return found
        return None

    def _file(self, path: str) -> LocalModule | None:
        if path not in self._known:
            self._known[path] = None
            if (
                len(self._known) > MOST_MODULES * 8
                or sum(each is not None for each in self._known.values()) > MOST_MODULES
            ):
                return None
            text = self._read(path)
            code = read_code(text) if text is not None else None
            if code is None:
                return None
            found = self._known[path] = LocalModule(path, code)
            self.through[found] = self._here
            self._follow(found)
        return self._known[path]

    def _part(self) -> None:
        """Leave out modules whose names another one has."""
        owners: dict[str, ast.stmt] = dict(self.main.made)
        for found in self._imports[self.main]:  # what the program takes by name is that file's, and no other's
            for name, called in found.names.items():
                if found.file is not None and name == called and name in found.file.made:
                    owners.setdefault(name, found.file.made[name])
        brought = dict(_brought(self.main, self._imports[self.main]))
        for module in self.order:
            if module is self.main:
                continue
            its = dict(_brought(module, self._imports[module]))
            clash = any(
                name in owners and ast.dump(owners[name]) != ast.dump(made) for name, made in module.made.items()
            )
            clash = clash or any(brought.get(name, meaning) != meaning for name, meaning in its.items())
            clash = clash or bool(module.made.keys() & brought.keys()) or bool(its.keys() & owners.keys())
            if clash:
                self._left_out.add(module)
                continue
            owners.update(module.made)
            brought.update(its)
        self._names = {name for module in self.order if self.is_taken(module) for name in module.made}

    def written(self, module: LocalModule) -> str:
        """Its text, of the same length, without what it imports of ours."""
        text = list(module.code.text)
        for found in self._imports[module]:
            self._resolve(module, found, text)
        if module is not self.main:
            for statement in module.code.tree.body:
                if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
                    _put(text, *module.code.ends(statement.test), "0")
        return "".join(text)

    def _resolve(self, module: LocalModule, found: LocalImport, text: list[str]) -> None:
        names = found.names
        if not names.keys() <= self._names:
            return
        files = [
            *found.modules.values(),
            *([found.file] if found.file is not None and (names or found.is_star) else []),
        ]
        if not all(map(self.is_taken, files)):
            return
        uses = list(self._uses(module, found.modules)) if found.modules else []
        if any(name is None for _, name in uses):
            return  # something of the module that is not told: its name stays what it was
        again = "; ".join(f"{called} = {name}" for name, called in names.items() if name != called) or "pass"
        start, end = module.code.ends(found.node)
        if len(again) > len(module.code.text[start:end].partition("\n")[0]):
            return
        _put(text, start, end, again)
        for node, name in uses:
            _put(text, *module.code.ends(node), name or "")

    def _uses(
        self, module: LocalModule, modules: dict[str, LocalModule]
    ) -> Iterator[tuple[ast.Attribute | ast.Name, str | None]]:
        """`utils.init` -> "init"; None for what is no name of a module's."""
        inside: set[ast.AST] = set()
        for node in module.code.nodes:
            if isinstance(node, ast.Attribute) and _dotted(node.value) in modules:
                inside |= set(ast.walk(node.value))
                is_told = node.attr in self._names and node.lineno == node.end_lineno
                yield node, node.attr if is_told else None
        roots = {name.partition(".")[0] for name in modules}
        for node in module.code.nodes:
            if isinstance(node, ast.Name) and node.id in roots and node not in inside:
                yield node, None


def _put(text: list[str], start: int, end: int, new: str) -> None:
    """Write over a stretch: its lines stay."""
    text[start:end] = [letter if letter == "\n" else " " for letter in text[start:end]]
    text[start : start + len(new)] = new


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def _at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module that are run as it is imported."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for inner in (statement.body, getattr(statement, "orelse", []), getattr(statement, "finalbody", [])):
                yield from _at_top(inner)
            for handler in getattr(statement, "handlers", []):
                yield from _at_top(handler.body)


def _makes(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With)):
        names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        yield from (node.id for node in names if isinstance(node.ctx, ast.Store))  # not os of `os.environ["A"] = "1"`


def _brought(module: LocalModule, own: list[LocalImport]) -> Iterator[tuple[str, str]]:
    """Names of packages in a module, and what they mean."""
    local = {each.node for each in own}
    return imports_of(node for node in module.code.nodes if node not in local)
