"""Lists, branches, loops and functions of a shell text."""

from typing import TYPE_CHECKING, Any

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Word
from gpudoctor.lint.shell import loops
from gpudoctor.lint.shell.binding import bind
from gpudoctor.lint.shell.context import DEEPEST, Context, Function, Gathered, Script, statements_of, written
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.guards import Decision, decide
from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.substitute import written_by
from gpudoctor.lint.shell.variables import Variables

if TYPE_CHECKING:
    from tree_sitter import Node

ALWAYS = {"true": True, ":": True, "false": False}
ORDINARY = ("test", "[", "[[", "command", "type", "which", "grep", "pgrep", "hash", "nvidia-smi", "ping", "nc")
"""Commands of which `&&` is a question: what follows may not run."""


FAILS = lazy_re(r"\breturn +[^0\s;]|\bfalse\b|\]\s*;?\s*\}?\s*\Z")
"""A function that may be asked."""
BREAK = lazy_re(r"(?<![\w-])break(?![\w-])")
MOST_TURNS = 64


class Control(Gathered):
    """Follows what decides whether and how often commands run."""

    def chain(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        """`a && b`, `a || b`."""
        operators = [child.type for child in node.children if child.type in ("&&", "||")]
        parts = [child for child in node.children if child.is_named]
        if len(parts) < 2 or not operators:
            self.statements(node, script, variables, context)
            return
        left, right = parts[0], parts[1]
        self.statement(left, script, variables, structs.replace(context, tested=True))
        if variables.ended is not None:
            return
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
        self.join(variables, [other, variables.copy()])

    def question(self, node: "Node", script: Script, variables: Variables, context: Context) -> Decision | None:
        """What a command decides by its exit status; None for one that is meant to succeed."""
        if node.type == "redirected_statement" and node.named_children:
            node = node.named_children[0]
        negated = node.type == "negated_command" and bool(node.named_children)
        inner = node.named_children[0] if negated else node
        text = written(inner, script)
        if inner.type == "list":
            parts = [self.question(named_child, script, variables, context) for named_child in inner.named_children[:2]]
            guards = [part.node for part in parts if part is not None and part.node is not None]
            if all(part is None for part in parts):
                return None
            either = any(child.type == "||" for child in inner.children)
            # what is no question is meant to succeed
            begun, ended = (part.outcome if part is not None else True for part in (parts[0], parts[-1]))
            return Decision(ended if begun is (not either) else begun, guards[0] if guards and not either else None)
        if (
            inner.type == "test_command"
            or text.startswith("((")
            or (inner.type == "command" and text.startswith("test "))
        ):
            return decide(node, Expander(script.source, variables, context.where))
        first = text.split(None, 1)[0] if text.strip() else ""
        if first in ALWAYS:
            return Decision(ALWAYS[first] is not negated)
        function = variables.functions.get(first)
        if isinstance(function, Function) and FAILS.search(written(function.body, function.script)):
            return Decision()
        return Decision() if negated or first in ORDINARY else None

    def pipeline(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        parts = [child for child in node.children if child.is_named]
        given: ShellSource | None = None
        for part in parts:
            with self.apart():
                self.statement(part, script, variables.copy(), structs.replace(context, given=given or context.given))
            text = written_by(part, Expander(script.source, variables, context.where))
            given = ShellSource.of_runs([CommandRun(text)], self.lines) if text else None

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
                clauses.append((None, statements_of(child.children)))
        waiting = variables.copy()
        for condition, body in clauses:
            decision = Decision(True) if condition is None else Decision()
            if condition is not None:
                self.statement(condition, script, waiting, structs.replace(context, conditional=True, tested=True))
                if waiting.ended is not None:
                    break
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
        self.join(variables, results)

    def case(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        value = node.child_by_field_name("value")
        expander = Expander(script.source, variables, context.where)
        runs = expander.runs(value.start_byte, value.end_byte) if value is not None else []
        results: list[Variables] = []
        word = "".join(run.text for run in runs) if all(run.known for run in runs) else None
        if word is None and variables.chosen:
            word = self.chosen(runs, variables, script, node)
        surely = falls_through = False
        for item in node.children:
            if item.type != "case_item":
                continue
            patterns, body = loops.case_parts(item)
            fits = falls_through or loops.case_fits(word, patterns, expander)
            falls_through = False
            if fits is False:
                continue
            if fits and not results:
                self.block(statements_of(body), script, variables, context)
                falls_through = loops.case_end(item) == ";&"
                if variables.ended is not None or (not falls_through and loops.case_end(item) != ";;&"):
                    return
                continue
            branch = variables.copy()
            guard = loops.case_guard(runs, [written(pattern, script) for pattern in patterns])
            inside = structs.replace(
                context, conditional=True, node_guard=guard if guard is not None else context.node_guard
            )
            self.block(statements_of(body), script, branch, inside)
            results.append(branch)
            if fits:
                surely = True
                break
        if not surely:
            results.append(variables.copy())
        self.join(variables, results)

    def chosen(self, runs: "list[CommandRun]", variables: Variables, script: Script, node: "Node") -> str | None:
        """What the variable of a `case` is taken to be; from here on it has that value."""
        named = [run.expansions[0].name for run in runs if run.expansions]
        name = named[0] if named and len([run for run in runs if run.text]) == 1 else ""
        word = variables.chosen.get(name)
        if word is not None:
            place = Word(raw=word, text=word, shown=word, span=script.source.span(node.start_byte, node.start_byte))
            bind(variables, name, place, (CommandRun(word),))
        return word

    def repeated(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        """`while` and `until`: turn by turn while the condition is decided, else as something that may happen."""
        inside = structs.replace(context, in_loop=context.in_loop or "while")
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        until = any(child.type == "until" for child in node.children)
        left: list[Variables] = []
        if condition is not None and body is not None:
            for _ in range(MOST_TURNS):
                decision = self.question(condition, script, variables, context)
                if _is_true(condition, script):
                    decision = Decision(True)
                if decision is None or decision.outcome is None:
                    break
                if decision.outcome is until:
                    self.behind_loop(variables, left)
                    return
                before = len(left)
                if not self.turn(body, script, variables, inside, left):
                    self.behind_loop(variables, left)
                    return
                if _is_true(condition, script) and (len(left) > before or not BREAK.search(written(body, script))):
                    break
        left.append(variables.copy())
        self.unsettle(node, script, variables, inside)
        self.turn(node, script, variables, inside, left)
        self.behind_loop(variables, left)

    def turn(self, body: "Node", script: Script, variables: Variables, inside: Context, left: list[Variables]) -> bool:
        """One turn of a loop; whether another may follow. `left`: gets the ways by which the loop may have ended."""
        self.loops.append([])
        try:
            self.statements(body, script, variables, inside)
        finally:
            ways = self.loops.pop()
        going_on: list[Variables] = []
        for way in [*ways, variables.copy()]:
            how, levels = way.ended or ("continue", 1)
            if levels > 1 and how in ("break", "continue") and self.loops:
                way.ended = (how, levels - 1)
                self.leave(way)
            elif how in ("break", "continue"):
                way.ended = None
                (left if how == "break" else going_on).append(way)
        if going_on:
            variables.ended = None
            variables.merge(going_on)
        elif left:
            variables.ended = ("break", 1)
        elif variables.ended is not None and variables.ended[0] in ("break", "continue"):
            variables.ended = (variables.ended[0], variables.ended[1] - 1)
        return bool(going_on)

    def behind_loop(self, variables: Variables, left: list[Variables]) -> None:
        """What holds behind a loop, which may have been left early."""
        if left:
            ways = left if variables.ended is not None else [*left, variables.copy()]
            variables.ended = None
            variables.merge(ways)

    def unsettle(self, body: "Node", script: Script, variables: Variables, inside: Context) -> None:
        """Before a loop of which nobody knows the turns: what a turn changes is another one in each."""
        if self.unsettling > 1:
            return
        gathered = len(self.invocations), len(self.every_sbatch), len(self.notes), len(self.heredocs), len(self.written)
        files, way = dict(self.files), variables.copy()
        self.unsettling += 1
        try:
            self.turn(body, script, way, inside, [])
        finally:
            self.unsettling -= 1
            self.files = files
            lists: tuple[list[Any], ...] = (
                self.invocations, self.every_sbatch, self.notes, self.heredocs, self.written,
            )  # fmt: skip
            for kept, size in zip(lists, gathered, strict=True):
                del kept[size:]
        way.ended = None
        variables.merge([variables.copy(), way])

    def loop(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        variable = node.child_by_field_name("variable")
        label = written(variable, script) if variable is not None else "for"
        body = node.child_by_field_name("body")
        expander = Expander(script.source, variables, context.where)
        values = loops.values_of(node, expander)
        self.rounds(label, values, body, script, variables, context)

    def counted_loop(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        head = script.source.text[node.start_byte : (node.child_by_field_name("body") or node).start_byte]
        label, values = loops.counted(head, Expander(script.source, variables, context.where))
        self.rounds(label or "for", values, node.child_by_field_name("body"), script, variables, context)

    def rounds(
        self, label: str, values: list[list[CommandRun]] | None, body: "Node | None", script: Script,
        variables: Variables, context: Context,
    ) -> None:  # fmt: skip
        if body is None:
            return
        inside = structs.replace(context, in_loop=label)
        source = script.source
        place = Word(raw="", text=None, shown=f"${label}", span=source.span(body.start_byte, body.start_byte))
        if values is None:
            bind(variables, label, place, None)
            left = [variables.copy()]
            self.unsettle(body, script, variables, inside)
            self.turn(body, script, variables, inside, left)
            self.behind_loop(variables, left)
            return
        left = []
        for value in values:
            known = all(run.known for run in value)
            text = "".join(run.text for run in value)
            bound = structs.replace(place, raw=text, text=text if known else None, shown=text)
            bind(variables, label, bound, tuple(value))
            if not self.turn(body, script, variables, inside, left):
                break
        self.behind_loop(variables, left)

    def define(self, node: "Node", script: Script, variables: Variables) -> None:
        name_node = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name_node is not None and body is not None:
            variables.functions[written(name_node, script)] = Function(body, script)

    def call(
        self,
        function: "Function",
        arguments: list[list[CommandRun]],
        place: Word,
        variables: Variables,
        context: Context,
    ) -> None:
        function.called = True
        if function.running or context.depth > DEEPEST // 2:
            return
        function.running = True
        saved = {str(number): variables.get(str(number)) for number in range(1, 10)}
        rest = variables.get("@")
        loops, self.loops = self.loops, []
        self.returns.append([])
        self.locals.append({})
        try:
            self.positional(arguments, place, variables)
            self.statement(function.body, function.script, variables, context)
        finally:
            function.running = False
            self.loops = loops
            self.returned(variables)
            for key, before in {**saved, "@": rest, **self.locals.pop()}.items():
                if before is None:
                    variables.unset(key)
                else:
                    variables.set(key, before)

    def returned(self, variables: Variables) -> None:
        """Behind a function or a sourced file, which may have been left early."""
        ways = self.returns.pop()
        if variables.ended is None or variables.ended[0] != "exit":
            variables.ended = None
            ways.append(variables.copy())
        if ways:
            for way in ways:
                way.ended = None
            variables.ended = None
            variables.merge(ways)

    def uncalled(self, variables: Variables, script: Script, context: Context) -> None:
        """What functions would do that nobody calls here (another file may)."""
        for function in list(variables.functions.values()):
            if isinstance(function, Function) and not function.called and function.script is script:
                function.called = True
                self.statement(function.body, script, variables.copy(), structs.replace(context, conditional=True))


def _is_true(condition: "Node", script: Script) -> bool:
    return written(condition, script).strip() in ("true", ":", "[ 1 ]", "((1))")


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
    return condition, statements_of(body)
