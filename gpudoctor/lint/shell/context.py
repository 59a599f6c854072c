"""What the parts of the follower share: the place of a command, and what is gathered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.lint.model import Invocation, SbatchOption, TextSection, Where, Word
from gpudoctor.lint.shell.source import CommandRun, ShellLines, ShellSource
from gpudoctor.lint.shell.variables import ShellVariable, Variables

if TYPE_CHECKING:
    from tree_sitter import Node

WORK = 200_000
"""Steps until we stop: a command costs one, and one for each four variables that it gets."""
MOST_COMMANDS = 8192
"""Commands that are followed in one text, turns of loops among them: far more than any script that people write."""
DEEPEST = 60
SHELL_DEPTH = 6


class Context(Struct, frozen=True, kw_only=True):
    """What holds for the commands of a place."""

    where: Where = "node"
    section: int = 0
    background: bool = False
    waited_for: bool = True
    in_loop: str = ""
    conditional: bool = False
    node_guard: int | None = None
    tested: bool = False
    """A condition: `set -e` does not hold in it."""
    reached: bool = True
    """False: the script has ended before."""
    within: tuple[Invocation, ...] = ()
    depth: int = 0
    shells: int = 0
    given: ShellSource | None = None
    """What the program around it reads on standard input: of `ssh n1 'bash -s' <<EOF`."""


class Script(Struct, frozen=True):
    """A parsed source."""

    source: ShellSource
    last_wait: int
    """Where the last `wait` stands; -1 when there is none."""


class Exhausted(Exception):
    """The work is used up."""


class Function:
    """A shell function."""

    def __init__(self, body: "Node", script: Script) -> None:
        self.body = body
        self.script = script
        self.called = False
        self.running = False


class Gathered:
    """What has been found so far. The methods are those by which the parts of the follower call each other."""

    def __init__(self, text: str) -> None:
        self.lines = ShellLines(text)
        self.invocations: list[Invocation] = []
        self.every_sbatch: list[SbatchOption] = []
        self.files: dict[str, ShellSource] = {}
        self.written: list[TextSection] = []
        self.added_to: set[str] = set()
        """Files that a text adds to."""
        self.notes: list[str] = []
        self.has_unread_source = False
        self.heredocs: list[tuple[int, int]] = []
        self.work = WORK
        self.unsettling = 0
        """Loops that are followed only to see what they change."""
        self.loops: list[list[Variables]] = []
        """Of each loop that is followed, innermost last: how it may have been left or gone on early."""
        self.returns: list[list[Variables]] = []
        """The same of functions and sourced files."""
        self.locals: list[dict[str, ShellVariable | None]] = []
        """Of each function that is followed: its own variables, and what they hid."""

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 100:
            self.notes.append(text)

    def spend(self, steps: int) -> None:
        self.work -= steps
        if self.work < 0 or len(self.invocations) >= MOST_COMMANDS:
            raise Exhausted

    def text(self, source: ShellSource, variables: Variables, context: Context) -> None:
        raise NotImplementedError

    def statement(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        raise NotImplementedError

    def statements(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        raise NotImplementedError

    def block(self, body: "list[tuple[Node, bool]]", script: Script, variables: Variables, context: Context) -> int:
        raise NotImplementedError

    @contextmanager
    def apart(self) -> Iterator[None]:
        """In a subshell or another program: no loop or function of here can be left from there."""
        before = self.loops, self.returns, self.locals
        self.loops, self.returns, self.locals = [], [], []
        try:
            yield
        finally:
            self.loops, self.returns, self.locals = before

    def join(self, variables: Variables, branches: list[Variables]) -> None:
        """After branches of which one is taken: what holds where the flow goes on."""
        going_on = [branch for branch in branches if branch.ended is None]
        ended = [branch for branch in branches if branch.ended is not None]
        if not going_on:
            going_on, variables.ended = ended[:1], ended[0].ended
            ended = ended[1:]
        for branch in ended:
            self.leave(branch)
        variables.merge(going_on)

    def leave(self, branch: Variables) -> None:
        """This is how a loop or function may have been left."""
        how = branch.ended[0] if branch.ended is not None else ""
        stack = self.returns if how == "return" else self.loops if how in ("break", "continue") else []
        if stack:
            stack[-1].append(branch)

    def positional(self, arguments: list[list[CommandRun]], place: Word, shell: Variables) -> None:
        raise NotImplementedError

    def returned(self, variables: Variables) -> None:
        raise NotImplementedError

    def call(
        self, function: Function, arguments: list[list[CommandRun]], place: Word, variables: Variables, context: Context
    ) -> None:
        raise NotImplementedError


def statements_of(children: "list[Node]") -> "list[tuple[Node, bool]]":
    """The statements among children, and whether an `&` follows each (asking a node for its sibling is slow)."""
    statements: list[tuple[Node, bool]] = []
    for child in children:
        if child.is_named or child.is_error:
            statements.append((child, False))
        elif child.type == "&" and statements:
            statements[-1] = (statements[-1][0], True)
    return statements


def written(node: "Node", script: Script) -> str:
    return script.source.text[node.start_byte : node.end_byte]
