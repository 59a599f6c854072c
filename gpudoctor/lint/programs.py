"""What a training program in the text does: which variables it wants, how it takes its rank, what only one rank calls.

Python's own parser reads it, and nothing of it is run. A text that does not parse as a whole tells nothing.
"""

import ast
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, LintLaunch, Span, TextSection, file_named
from gpudoctor.lint.python_code import PythonCode, code_of, codes
from gpudoctor.lint.python_text import last_name, walked

COLLECTIVES = frozenset(
    (
        *(
            "barrier",
            "monitored_barrier",
            "all_reduce",
            "broadcast",
            "broadcast_object_list",
            "all_gather",
        ),
        *(
            "all_gather_object",
            "reduce",
            "gather",
            "gather_object",
            "all_gather_into_tensor",
        ),
        *(
            "reduce_scatter",
            "reduce_scatter_tensor",
            "scatter",
            "all_to_all",
            "all_to_all_single",
        ),
        *("wait_for_everyone",),
    )
)
"""What all ranks of the group must call; wait_for_everyone is accelerate's."""
OF_DISTRIBUTED = lazy_re(r"^(?:dist|distributed|torch\.distributed|c10d|accelerator|self\.accelerator)$")
_RANK = (
    r"(?:\w+\.)*(?:global_|world_|local_)?rank|(?:torch\.distributed|dist|distributed)\.get_rank\(\)|(?:\w+\.)*process_index"
    r"|int\(os\.(?:environ\[|environ\.get\(|getenv\()'(?:LOCAL_)?RANK'(?:, (?:'?-?\d+'?))?[\])]\)|get_rank\(\)"
    r"|(?:xm|xla_model|xr|runtime)\.(?:get_(?:local_)?ordinal|global_ordinal)\(\)"
)
FIRST_ONLY = lazy_re(
    rf"^(?:(?:{_RANK}) == 0|0 == (?:{_RANK})|not (?:{_RANK})|(?:\w+\.)*is_(?:local_)?main_process(?:\(\))?|"
    r"(?:\w+\.)*is_(?:global_zero|main_rank|master|rank_zero|master_ordinal)(?:\([^()]*\))?)$"
)
"""Of a condition: it holds on one rank only."""
OTHERS_ONLY = lazy_re(
    rf"^(?:(?:{_RANK}) (?:!= 0|> 0|not in [\[({{](?:-1, )?0[\])}}])|(?:{_RANK})|"
    r"not (?:\w+\.)*is_(?:local_)?main_process(?:\(\))?|"
    r"not (?:\w+\.)*is_(?:global_zero|main_rank|master|rank_zero)(?:\(\))?)$"
)
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class ProgramPlace(Struct, frozen=True):
    """Something in a program, with the text that is meant."""

    words: str
    span: Span
    inside: str = ""
    """The condition around it."""


class Program(Struct, frozen=True, kw_only=True):
    text: str
    wants: tuple[ProgramPlace, ...] = ()
    """Variables without which it ends: os.environ["NAME"]."""
    options: frozenset[str] = frozenset()
    """Of its own command line (argparse, click)."""
    calls: dict[str, tuple[ProgramPlace, ...]] = {}
    """By the last name of what is called: the call as written."""
    on_one_rank: tuple[ProgramPlace, ...] = ()
    """Collectives that one rank alone comes to."""

    def names(self, *words: str) -> bool:
        """Whether one of these words stands anywhere in it."""
        return any(re.search(rf"\b{word}\b", self.text) for word in words)

    def first(self, *names: str) -> ProgramPlace | None:
        return next((place for name in names for place in self.calls.get(name, ())), None)


def program_of(job: LintJob, launch: LintLaunch) -> Program | None:
    """The program that a launch starts, where it stands in the text too."""
    section = launched_file(job, launch)
    code = code_of(job, section) if section is not None else None
    return read(code) if code is not None else None


def launched_file(job: LintJob, launch: LintLaunch) -> TextSection | None:
    """The file of a program, where the text has it."""
    name = launch.program_file
    return file_named(job.sections, name) if name.endswith(".py") else None


def programs(job: LintJob) -> Iterator[Program]:
    """Every Python text."""
    yield from (program for code in codes(job) if (program := read(code)) is not None)


@lru_cache(maxsize=64)
def read(code: PythonCode) -> Program | None:
    """None: its expressions are too deep."""

    def place(node: ast.expr, inside: str = "") -> ProgramPlace:
        return ProgramPlace(code.words(node), code.span(node), inside)

    wants: list[ProgramPlace] = []
    options: set[str] = set()
    calls: dict[str, list[ProgramPlace]] = {}
    try:
        for node in code.nodes:
            if isinstance(node, ast.Subscript) and (name := wanted(node)):
                wants.append(ProgramPlace(name, place(node).span))
            if isinstance(node, ast.Call):
                called = last_name(node.func)
                calls.setdefault(called, []).append(place(node))
                if called in ("add_argument", "option"):
                    options |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)
                                and isinstance(arg.value, str)}  # fmt: skip
        lone = {call: place(call, condition) for call, condition in _on_one_rank(code.tree)}  # once if nested
    except RecursionError:
        return None
    by_name = {name: tuple(places) for name, places in calls.items()}
    return Program(
        text=code.text, wants=tuple(wants), options=frozenset(options), calls=by_name, on_one_rank=tuple(lone.values())
    )


def wanted(node: ast.Subscript) -> str:
    """NAME of os.environ["NAME"] that is read."""
    if not isinstance(node.ctx, ast.Load) or last_name(node.value) != "environ":
        return ""
    return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""


def _collectives(nodes: list[ast.stmt]) -> Iterator[ast.Call]:
    """Of the default group, outside of functions that are only defined there."""
    waiting: deque[ast.AST] = deque(nodes)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in COLLECTIVES
            and OF_DISTRIBUTED.match(ast.unparse(node.func.value))
            and not any(keyword.arg in ("group", None) for keyword in node.keywords)
        ):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _on_one_rank(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Collectives below a condition that holds on one rank, where no other rank comes to one in its stead: neither in
    the other branch, nor below the opposite condition in the same function (the first rank loads, the others wait)."""
    for scope in walked(tree):
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            continue
        conditions = [node for node in _within(scope) if isinstance(node, ast.If)]
        opposite = [condition for condition in conditions if OTHERS_ONLY.match(ast.unparse(condition.test))]
        if any(True for node in opposite for _ in _collectives(node.body)):
            continue
        for condition in conditions:
            test = ast.unparse(condition.test)
            if FIRST_ONLY.match(test) and not any(True for _ in _collectives(condition.orelse)):
                if condition.orelse and isinstance(condition.orelse[-1], ENDS):
                    continue
                yield from ((call, test) for call in _collectives(condition.body))
        yield from _behind_returns(scope)


def _behind_returns(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Collectives of a function from which all ranks but one have returned: `if rank != 0: return`."""
    for index, each in enumerate(scope.body):
        if not isinstance(each, ast.If) or each.orelse or not each.body or not isinstance(each.body[-1], ast.Return):
            continue
        test = ast.unparse(each.test)
        if OTHERS_ONLY.match(test) and not any(True for _ in _collectives(each.body)):
            yield from ((call, f"{test}: return") for call in _collectives(scope.body[index + 1 :]))


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """What a function or module does itself, without the functions that are defined in it."""
    waiting = deque(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))
