"""Walks the tree of a shell text as the shell would, and gathers the commands."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from gpudoctor.lint.model import Invocation, SbatchOption, Section, Setting, Where, Word
from gpudoctor.lint.shell import loops
from gpudoctor.lint.shell.assign import assign, declare, read_into
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.fields import fields, word
from gpudoctor.lint.shell.guards import Decision, decide
from gpudoctor.lint.shell.heredocs import Redirects, redirects
from gpudoctor.lint.shell.parse import TooTangled, parse
from gpudoctor.lint.shell.sbatch import lines_of, options_of
from gpudoctor.lint.shell.source import Lines, Run, Source
from gpudoctor.lint.shell.variables import How, Variables
from gpudoctor.lint.shell.wrappers import ASSIGNMENT, Started, name, started

if TYPE_CHECKING:
    from tree_sitter import Node

WORK = 200_000
"""Steps until we stop: a command costs one, and one for each variable that it gets."""
DEEPEST = 60
LONGEST_INNER = 1 << 17
SHELL_DEPTH = 6
ORDINARY = ("test", "[", "[[", "command", "type", "which", "grep", "pgrep", "hash", "false", "nvidia-smi", "ping", "nc")
"""Commands of which `&&` is a question: what follows may not run."""
WAIT = re.compile(r"(?<![\w.=/-])wait(?![\w.=/-])")
IGNORED = frozenset(
    ("cd", "pushd", "popd", "module", "ml", "conda", "mamba", "micromamba", "set", "shopt", "ulimit", "umask", "trap")
)


class Context(Struct, frozen=True, kw_only=True):
    """What holds for the commands of a place."""

    where: Where = "node"
    section: int = 0
    background: bool = False
    waited_for: bool = True
    in_loop: str = ""
    conditional: bool = False
    node_guard: int | None = None
    within: tuple[Invocation, ...] = ()
    depth: int = 0
    shells: int = 0


class Script(Struct, frozen=True):
    """A parsed source."""

    source: Source
    last_wait: int
    """Where the last `wait` stands; -1 when there is none."""


class Exhausted(Exception):
    """The work is used up."""


class Follower:
    """Gathers what the shell texts of one job do."""

    def __init__(self, text: str) -> None:
        self.lines = Lines(text)
        self.invocations: list[Invocation] = []
        self.every_sbatch: list[SbatchOption] = []
        self.files: dict[str, Source] = {}
        self.written: list[Section] = []
        self.notes: list[str] = []
        self.heredocs: list[tuple[int, int]] = []
        self.work = WORK

    # ---- texts

    def text(self, source: Source, variables: Variables, context: Context) -> None:
        """Follow a whole text."""
        if not source.text.strip() or context.shells > SHELL_DEPTH:
            return
        line = source.span(0, 1).line
        if len(source.text) > LONGEST_INNER and context.shells:
            self.note(
                f"line {line}: the text for the inner shell is longer than {LONGEST_INNER} characters and was not followed"
            )
            return
        try:
            root = parse(source.text)
        except TooTangled:
            self.note(f"line {line}: the text from here on is too tangled to be parsed in time and was not followed")
            return
        script = Script(source, _last_wait(root, source.text))
        try:
            self.statements(root, script, variables, context)
            self.uncalled(variables, script, context)
        except Exhausted:
            if context.shells:
                raise
            self.note(
                f"line {line}: the text from here on has more steps than are followed; its later commands were not read"
            )

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 100:
            self.notes.append(text)

    def spend(self, steps: int) -> None:
        self.work -= steps
        if self.work < 0:
            raise Exhausted

    # ---- statements

    def statements(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        self.block(_statements(node.children), script, variables, context)

    def block(self, body: "list[tuple[Node, bool]]", script: Script, variables: Variables, context: Context) -> None:
        """`body`: statements, and whether an `&` follows."""
        for each, background in body:
            inside = context
            if background:
                waited = context.waited_for and script.last_wait >= each.end_byte
                inside = structs.replace(context, background=True, waited_for=waited)
            self.statement(each, script, variables, inside)

    def statement(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        if context.depth > DEEPEST:
            self.note(f"line {script.source.span(node.start_byte, node.end_byte).line}: nested too deep to be followed")
            return
        self.spend(1)
        context = structs.replace(context, depth=context.depth + 1)
        kind = node.type
        if kind == "command":
            self.command(node, script, variables, context, Redirects())
        elif kind == "redirected_statement":
            self.redirected(node, script, variables, context)
        elif kind in ("variable_assignment", "variable_assignments"):
            for each in [node] if kind == "variable_assignment" else node.named_children:
                assign(each, Expander(script.source, variables, context.where), "assignment", exported=False)
        elif kind == "declaration_command":
            declare(node, Expander(script.source, variables, context.where))
        elif kind == "unset_command":
            for each in node.named_children:
                variables.unset(_written(each, script))
        elif kind == "if_statement":
            self.branches(node, script, variables, context)
        elif kind == "case_statement":
            self.case(node, script, variables, context)
        elif kind == "for_statement":
            self.loop(node, script, variables, context)
        elif kind == "c_style_for_statement":
            self.counted_loop(node, script, variables, context)
        elif kind == "while_statement":
            inside = structs.replace(context, in_loop=context.in_loop or "while")
            before = variables.copy()
            self.statements(node, script, variables, inside)
            variables.merge([variables.copy(), before])
        elif kind == "list":
            self.chain(node, script, variables, context)
        elif kind == "pipeline":
            self.pipeline(node, script, variables, context)
        elif kind == "subshell":
            self.statements(node, script, variables.copy(), context)
        elif kind == "function_definition":
            self.define(node, script, variables)
        elif kind in ("comment", "test_command", "heredoc_body", "heredoc_start", "heredoc_end", "file_redirect"):
            pass
        else:  # groups, errors, and what newer grammars bring
            self.statements(node, script, variables, context)

    def redirected(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        expander = Expander(script.source, variables, context.where)
        found = redirects(node, expander)
        if found.document is not None:
            self.heredocs.append(found.document)
        for name_, source, section in found.writes:
            self.files[name_] = source
            self.written.append(section)
        body = node.child_by_field_name("body") or (node.named_children[0] if node.named_children else None)
        if body is not None and body.type == "command":
            self.command(body, script, variables, context, found)
        elif body is not None and body.type not in ("heredoc_redirect", "file_redirect", "herestring_redirect"):
            self.statement(body, script, variables, context)
        for each in found.commands:
            self.statement(each, script, variables, context)

    def chain(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        """`a && b`, `a || b`."""
        operators = [child.type for child in node.children if child.type in ("&&", "||")]
        parts = [child for child in node.children if child.is_named]
        if len(parts) < 2 or not operators:
            self.statements(node, script, variables, context)
            return
        left, right = parts[0], parts[1]
        self.statement(left, script, variables, context)
        decision = self.question(left, script, variables, context)
        outcome = decision.outcome if decision is not None else None
        if operators[0] == "&&" and decision is None:
            self.statement(right, script, variables, context)  # `cd there && torchrun`: meant to run
            return
        if outcome is not None:
            if outcome == (operators[0] == "&&"):
                self.statement(right, script, variables, context)
            return
        guard = decision.node if decision is not None and operators[0] == "&&" else None
        self.maybe(right, script, variables, context, guard)

    def maybe(
        self, node: "Node", script: Script, variables: Variables, context: Context, guard: int | None = None
    ) -> None:
        inside = structs.replace(
            context, conditional=True, node_guard=guard if guard is not None else context.node_guard
        )
        other = variables.copy()
        self.statement(node, script, other, inside)
        variables.merge([other, variables.copy()])

    def question(self, node: "Node", script: Script, variables: Variables, context: Context) -> Decision | None:
        """What a command decides by its exit status; None for one that is meant to succeed."""
        if node.type == "redirected_statement" and node.named_children:
            node = node.named_children[0]
        negated = node.type == "negated_command" and bool(node.named_children)
        inner = node.named_children[0] if negated else node
        written = _written(inner, script)
        if inner.type == "list":
            parts = [self.question(each, script, variables, context) for each in inner.named_children[:2]]
            guards = [part.node for part in parts if part is not None and part.node is not None]
            return Decision(None, guards[0] if guards and "||" not in [c.type for c in inner.children] else None) if any(
                part is not None for part in parts
            ) else None  # fmt: skip
        if (
            inner.type == "test_command"
            or written.startswith("((")
            or (inner.type == "command" and written.startswith("test "))
        ):
            return decide(node, Expander(script.source, variables, context.where))
        first = written.split(None, 1)[0] if written.strip() else ""
        return Decision() if negated or first in ORDINARY else None

    def pipeline(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        parts = [child for child in node.children if child.is_named]
        for each in parts:
            self.statement(each, script, variables.copy(), context)

    def branches(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        """`if`, `elif`, `else`."""
        results: list[Variables] = []
        certain = False
        clauses: list[tuple[Node | None, list[tuple[Node, bool]]]] = []
        condition, body = _clause(node)
        clauses.append((condition, body))
        for child in node.children:
            if child.type == "elif_clause":
                clauses.append(_clause(child))
            elif child.type == "else_clause":
                clauses.append((None, _statements(child.children)))
        waiting = variables.copy()
        for condition, body in clauses:
            decision = Decision(True) if condition is None else Decision()
            if condition is not None:
                self.statement(condition, script, waiting, structs.replace(context, conditional=True))
                decision = self.question(condition, script, waiting, context) or Decision()
            if decision.outcome is False:
                continue
            branch = waiting.copy()
            sure = decision.outcome is True and not results
            inside = structs.replace(
                context,
                conditional=context.conditional or not sure,
                node_guard=decision.node if decision.node is not None else context.node_guard,
            )
            self.block(body, script, branch, inside)
            results.append(branch)
            if decision.outcome is True:
                certain = True
                break
        if not certain:
            results.append(waiting)
        variables.merge(results)

    def case(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        value = node.child_by_field_name("value")
        expander = Expander(script.source, variables, context.where)
        runs = expander.runs(value.start_byte, value.end_byte) if value is not None else []
        results = [variables.copy()]
        for item in node.children:
            if item.type != "case_item":
                continue
            branch = variables.copy()
            patterns, body = loops.case_parts(item)
            guard = loops.case_guard(runs, [_written(each, script) for each in patterns])
            inside = structs.replace(
                context, conditional=True, node_guard=guard if guard is not None else context.node_guard
            )
            self.block(_statements(body), script, branch, inside)
            results.append(branch)
        variables.merge(results)

    # ---- loops and functions

    def loop(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        variable = node.child_by_field_name("variable")
        label = _written(variable, script) if variable is not None else "for"
        body = node.child_by_field_name("body")
        expander = Expander(script.source, variables, context.where)
        values = loops.values_of(node, expander)
        self.rounds(label, values, body, script, variables, context)

    def counted_loop(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        head = script.source.text[node.start_byte : (node.child_by_field_name("body") or node).start_byte]
        label, values = loops.counted(head, Expander(script.source, variables, context.where))
        self.rounds(label or "for", values, node.child_by_field_name("body"), script, variables, context)

    def rounds(
        self, label: str, values: list[list[Run]] | None, body: "Node | None", script: Script, variables: Variables,
        context: Context,
    ) -> None:  # fmt: skip
        if body is None:
            return
        inside = structs.replace(context, in_loop=label)
        source = script.source
        place = Word(raw="", text=None, shown=f"${label}", span=source.span(body.start_byte, body.start_byte))
        if values is None:
            loops.bind(variables, label, place, None)
            before = variables.copy()
            self.statements(body, script, variables, inside)
            variables.merge([variables.copy(), before])
            return
        for value in values:
            known = all(run.known for run in value)
            text = "".join(run.text for run in value)
            bound = structs.replace(place, raw=text, text=text if known else None, shown=text)
            loops.bind(variables, label, bound, tuple(value))
            self.statements(body, script, variables, inside)

    def define(self, node: "Node", script: Script, variables: Variables) -> None:
        name_node = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name_node is not None and body is not None:
            variables.functions[_written(name_node, script)] = Function(body, script)

    def call(
        self, function: "Function", arguments: list[list[Run]], place: Word, variables: Variables, context: Context
    ) -> None:
        function.called = True
        if function.running or context.depth > DEEPEST // 2:
            return
        function.running = True
        saved = {str(number): variables.get(str(number)) for number in range(1, 10)}
        rest = variables.get("@")
        try:
            for number in range(1, 10):
                if number <= len(arguments):
                    loops.bind(variables, str(number), place, tuple(arguments[number - 1]))
                else:
                    variables.unset(str(number))
            loops.bind_items(variables, "@", place, tuple(tuple(each) for each in arguments))
            self.statement(function.body, function.script, variables, context)
        finally:
            function.running = False
            for key, before in {**saved, "@": rest}.items():
                if before is None:
                    variables.unset(key)
                else:
                    variables.set(key, before)

    def uncalled(self, variables: Variables, script: Script, context: Context) -> None:
        """What functions would do that nobody calls here (another file may)."""
        for function in list(variables.functions.values()):
            if isinstance(function, Function) and not function.called and function.script is script:
                function.called = True
                self.statement(function.body, script, variables.copy(), structs.replace(context, conditional=True))

    # ---- commands

    def command(self, node: "Node", script: Script, variables: Variables, context: Context, found: Redirects) -> None:
        source = script.source
        expander = Expander(source, variables, context.where)
        prefixes: list[Node] = []
        places: list[tuple[int, int]] = []
        for child in node.children:
            if child.type == "variable_assignment" and not places:
                if prefixes and _line_ends(source.text, prefixes[-1].end_byte, child.start_byte):
                    # The grammar reads assignments on lines of their own as if they stood before the command.
                    for each in prefixes:
                        assign(each, expander, "assignment", exported=False)
                    prefixes = []
                prefixes.append(child)
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                more = redirects(node, expander)
                found = structs.replace(found, extra=found.extra + more.extra, stdin=found.stdin or more.stdin)
            elif child.end_byte > child.start_byte:
                if prefixes and not places and _line_ends(source.text, prefixes[-1].end_byte, child.start_byte):
                    for each in prefixes:
                        assign(each, expander, "assignment", exported=False)
                    prefixes = []
                places.append((child.start_byte, child.end_byte))
        places += found.extra
        self.words(places, prefixes, script, variables, context, found)

    def words(
        self, places: list[tuple[int, int]], prefixes: "list[Node]", script: Script, variables: Variables,
        context: Context, found: Redirects,
    ) -> None:  # fmt: skip
        source = script.source
        expander = Expander(source, variables, context.where)
        words: list[Word] = []
        pieces: list[list[Run]] = []
        for start, end in places:
            made = fields(expander.runs(start, end))
            for field in made:
                words.append(word(source, start, end, field, whole=len(made) == 1))
                pieces.append(field)
        if not words:
            for each in prefixes:
                assign(each, expander, "assignment", exported=False)
            return
        own = variables
        if prefixes:
            own = variables.copy()
            for each in prefixes:
                assign(each, Expander(source, variables, context.where), "prefix", exported=True, into=own)
        self.run(words, pieces, script, variables, own, context, found)

    def run(
        self, words: list[Word], pieces: list[list[Run]], script: Script, outer: Variables, variables: Variables,
        context: Context, found: Redirects,
    ) -> None:  # fmt: skip
        """A command with its words expanded. `variables`: those that it gets; `outer`: those of the shell."""
        program = name(words[0])
        if program in (".", "source"):
            self.source_file(words, script, outer, context)
            return
        if read_into(words, outer) or program in IGNORED:
            if program == "set" and any(each.shown in ("-a", "-o", "allexport") for each in words[1:3]):
                outer.export_all = (
                    outer.export_all or "allexport" in [each.shown for each in words] or words[1].shown == "-a"
                )
            if program in ("module", "ml", "conda", "mamba", "micromamba"):
                outer.unread_source = True
            if program not in ("conda", "mamba", "micromamba") or (len(words) > 1 and words[1].shown != "run"):
                return
        function = variables.functions.get(program)
        if isinstance(function, Function) and words[0].text == program:
            self.call(function, pieces[1:], words[0], outer, context)
            return
        settings = variables.settings()
        self.spend(1 + len(settings) // 4 + len(words) // 4)
        start, end = words[0].span.start, max(each.span.end for each in words)
        begins = context.within[-1].span if context.within else None
        span = self.lines.span(start, end, words[0].span.exact) if end >= start else (begins or words[0].span)
        invocation = Invocation(
            program=program,
            words=tuple(words),
            settings=settings,
            where=context.where,
            section=context.section,
            span=span,
            background=context.background,
            waited_for=context.waited_for,
            in_loop=context.in_loop,
            conditional=context.conditional,
            node_guard=context.node_guard,
            within=context.within,
        )
        begun = started(words)
        if begun is not None:
            # What a shell reads is expanded there: its `$` are none that are left over.
            for index in (*begun.texts,):
                words[index] = structs.replace(words[index], literal_dollar=False)
            invocation = structs.replace(invocation, words=tuple(words))
        self.invocations.append(invocation)
        if begun is not None:
            self.start(begun, invocation, words, pieces, script, outer, variables, context, found)

    def start(
        self, begun: Started, invocation: Invocation, words: list[Word], pieces: list[list[Run]], script: Script,
        outer: Variables, variables: Variables, context: Context, found: Redirects,
    ) -> None:  # fmt: skip
        """Follow what a wrapper starts."""
        where: Where = "task" if begun.task else "batch" if begun.batch else context.where
        if begun.fresh:
            where = "node"
        inside = structs.replace(
            context, where=where, within=(*context.within, invocation), depth=context.depth + 1,
            conditional=context.conditional, background=context.background,
        )  # fmt: skip
        if context.depth > DEEPEST:
            return
        passed = Variables() if begun.fresh else variables.copy()
        for index in begun.settings:
            self._setting(
                words[index], pieces[index], passed, "env" if invocation.program in ("env", "sudo") else "launcher"
            )
        if begun.at >= 0:
            self.run(
                words[begun.at :],
                pieces[begun.at :],
                script,
                outer if not begun.settings else passed,
                passed,
                inside,
                found,
            )
            return
        inside = structs.replace(inside, shells=context.shells + 1)
        shell = passed if invocation.program == "eval" else passed.for_program()
        if invocation.program == "sbatch":
            self.every_sbatch += options_of(words)
        if begun.texts:
            runs: list[Run] = []
            for number, index in enumerate(begun.texts):
                if number:
                    runs.append(Run(" "))
                prefix = "--wrap=" if begun.batch and words[index].shown.startswith("--wrap=") else ""
                runs += _without_prefix(pieces[index], prefix)
            self.text(Source.of_runs(runs, self.lines), shell, inside)
            if invocation.program == "eval":
                outer.unread_source = outer.unread_source or any(not run.known for run in runs)
        elif begun.script >= 0:
            self.script_file(words[begun.script], shell, inside)
        elif begun.reads_input and found.stdin is not None:
            if begun.batch:
                self.every_sbatch += lines_of(found.stdin)
            self.text(found.stdin, shell, inside)

    def _setting(self, word_: Word, runs: list[Run], into: Variables, how: How) -> None:
        match = ASSIGNMENT.match(word_.shown)
        if match is None:
            return
        name_ = match[0][:-1]
        value_runs = _without_prefix(runs, match[0])
        value = structs.replace(
            word_,
            raw=word_.raw.partition("=")[2],
            text=word_.text[len(match[0]) :] if word_.text is not None else None,
            shown=word_.shown[len(match[0]) :],
        )
        raw_at = word_.raw.find("=") + 1
        if (
            word_.span.exact
            and word_.span.end - word_.span.start == len(word_.raw)
            and not word_.raw.startswith(("'", '"'))
        ):
            value = structs.replace(value, span=self.lines.span(word_.span.start + raw_at, word_.span.end))
        loops.bind(
            into,
            name_,
            value,
            tuple(value_runs),
            setting=Setting(name_, value, True, how),
        )

    def source_file(self, words: list[Word], script: Script, variables: Variables, context: Context) -> None:
        known = self.files.get(words[1].shown.rsplit("/", 1)[-1]) if len(words) > 1 else None
        if known is not None and context.shells < SHELL_DEPTH:
            self.text(known, variables, structs.replace(context, shells=context.shells + 1))
            return
        variables.unread_source = True
        shown = words[1].shown if len(words) > 1 else ""
        if not shown.endswith(
            ("activate", "conda.sh", ".bashrc", ".profile", ".bash_profile", "modules.sh", "setvars.sh")
        ):
            self.note(f"line {words[0].span.line}: what {shown or 'source'} sets was not read")

    def script_file(self, file: Word, variables: Variables, context: Context) -> None:
        known = self.files.get(file.shown.rsplit("/", 1)[-1])
        if known is None:
            if not file.shown.startswith("/dev/"):
                self.note(
                    f"line {file.span.line}: what {file.shown} does was not read; `#@ file {file.shown}` before its text adds it"
                )
            return
        if context.where == "batch":
            self.every_sbatch += lines_of(known)
        self.text(known, variables, context)


class Function:
    """A shell function."""

    def __init__(self, body: "Node", script: Script) -> None:
        self.body = body
        self.script = script
        self.called = False
        self.running = False


def _written(node: "Node", script: Script) -> str:
    return script.source.text[node.start_byte : node.end_byte]


def _statements(children: "list[Node]") -> "list[tuple[Node, bool]]":
    """The statements among children, and whether an `&` follows each (asking a node for its sibling is slow)."""
    found: list[tuple[Node, bool]] = []
    for child in children:
        if child.is_named or child.is_error:
            found.append((child, False))
        elif child.type == "&" and found:
            found[-1] = (found[-1][0], True)
    return found


def _clause(node: "Node") -> "tuple[Node | None, list[tuple[Node, bool]]]":
    """The condition of an `if` or `elif`, and the statements behind its `then`."""
    condition = None
    body: list[Node] = []
    behind = False
    for child in node.children:
        if child.type == "then":
            behind = True
        elif child.type in ("elif_clause", "else_clause"):
            break
        elif behind:
            body.append(child)
        elif child.is_named and condition is None and child.type != "comment":
            condition = child
    return condition, _statements(body)


def _line_ends(text: str, start: int, end: int) -> bool:
    """A line ends between two words, without a backslash."""
    return "\n" in text[start:end].replace("\\\r\n", "").replace("\\\n", "")


def _last_wait(root: "Node", text: str) -> int:
    """Where the last `wait` stands that is a command."""
    for found in list(WAIT.finditer(text))[-50:][::-1]:
        node = root.descendant_for_byte_range(found.start(), found.end())
        if node is not None and node.parent is not None and node.parent.type == "command_name":
            return found.start()
    return -1


def _without_prefix(runs: list[Run], prefix: str) -> list[Run]:
    """The pieces behind `NAME=`."""
    left = len(prefix)
    found: list[Run] = []
    for run in runs:
        if left >= len(run.text) and left:
            left -= len(run.text)
            continue
        if left:
            exact = run.exact
            run = run._replace(text=run.text[left:], start=run.start + left if exact else run.start)
            left = 0
        found.append(run)
    return found
