"""Walks the tree of a shell text as the shell would, and gathers the commands."""

from typing import TYPE_CHECKING

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.shell.assign import assign, declare
from gpudoctor.lint.shell.commands import Commands
from gpudoctor.lint.shell.context import DEEPEST, SHELL_DEPTH, Context, Exhausted, Script, statements_of, written
from gpudoctor.lint.shell.control import Control
from gpudoctor.lint.shell.counting import count
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.guards import decide
from gpudoctor.lint.shell.heredocs import Redirects, redirects
from gpudoctor.lint.shell.parse import TooTangled, parse
from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.substitute import written_by
from gpudoctor.lint.shell.variables import Variables

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST_INNER = 1 << 17
WAIT = lazy_re(r"(?<![\w.=/-])wait(?![\w.=/-])")


class Follower(Control, Commands):
    """Gathers what the shell texts of one job do."""

    def text(self, source: ShellSource, variables: Variables, context: Context) -> None:
        """Follow a whole text."""
        if not source.text.strip() or context.shells > SHELL_DEPTH:
            return
        line = source.span(0, 1).line
        if len(source.text) > LONGEST_INNER and context.shells:
            self.note(
                f"line {line}: the text for the inner shell is longer than {LONGEST_INNER} characters; it was not read"
            )
            return
        try:
            root = parse(source.text)
        except TooTangled:
            self.note(f"line {line}: the text from here on is too tangled to be parsed in time and was not followed")
            return
        script = Script(source, _last_wait(root, source.text))
        try:
            self.to_its_end(statements_of(root.children), script, variables, context)
            self.uncalled(variables, script, context)
        except Exhausted:
            if context.shells:
                raise
            self.note(
                f"line {line}: the text from here on has more steps than are followed; its later commands were not read"
            )

    def statements(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        self.block(statements_of(node.children), script, variables, context)

    def to_its_end(
        self, body: "list[tuple[Node, bool]]", script: Script, variables: Variables, context: Context
    ) -> None:
        """What stands behind the end of the user's own text is read too, and known not to be reached."""
        done = self.block(body, script, variables, context)
        while context.shells == 0 and variables.ended is not None:
            variables.ended = None
            ended_by, body = body[done - 1][0], body[done:]
            if ended_by.type in ("if_statement", "case_statement", "for_statement", "while_statement"):
                context = structs.replace(context, conditional=True)  # a switch of the script's own: set today
            else:
                context = structs.replace(context, reached=False)
            done = self.block(body, script, variables, context)

    def block(self, body: "list[tuple[Node, bool]]", script: Script, variables: Variables, context: Context) -> int:
        """`body`: statements, and whether an `&` follows. How many of them were followed before the flow ended."""
        for number, (node, background) in enumerate(body, 1):
            if background:
                waited = context.waited_for and script.last_wait >= node.end_byte
                inside = structs.replace(context, background=True, waited_for=waited)
                with self.apart():
                    self.statement(node, script, variables.copy(), inside)
                continue
            self.statement(node, script, variables, context)
            if variables.exits_on_error and not context.tested and self.fails(node, script, variables, context):
                variables.ended = ("exit", 1)
            if variables.ended is not None:
                return number
        return len(body)

    def fails(self, node: "Node", script: Script, variables: Variables, context: Context) -> bool:
        """Whether this statement alone ends with another status than 0, for certain."""
        if node.type == "test_command":
            return decide(node, Expander(script.source, variables, context.where)).outcome is False
        return node.type == "command" and written(node, script).strip() == "false"

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
            for named_child in [node] if kind == "variable_assignment" else node.named_children:
                assign(named_child, Expander(script.source, variables, context.where), "assignment", exported=False)
        elif kind == "declaration_command":
            self.own_variables(node, script, variables)
            declare(node, Expander(script.source, variables, context.where))
        elif kind == "unset_command":
            for named_child in node.named_children:
                name = written(named_child, script).strip("'\"")
                array = variables.get(name.partition("[")[0]) if "[" in name else None
                if array is not None:  # an array with a gap
                    variables.set(array.setting.name, structs.replace(array, runs=None, items=None))
                variables.unset(name)
        elif kind == "if_statement":
            self.branches(node, script, variables, context)
        elif kind == "case_statement":
            self.case(node, script, variables, context)
        elif kind == "for_statement":
            self.loop(node, script, variables, context)
        elif kind == "c_style_for_statement":
            self.counted_loop(node, script, variables, context)
        elif kind == "while_statement":
            self.repeated(node, script, variables, context)
        elif kind == "compound_statement" and written(node, script).startswith("(("):
            span = script.source.span(node.start_byte, node.end_byte)
            result = count(written(node, script)[2:-2], variables, span)
            if result == 0 and variables.exits_on_error and not context.tested:
                variables.ended = ("exit", 1)
        elif kind == "list":
            self.chain(node, script, variables, context)
        elif kind == "pipeline":
            self.pipeline(node, script, variables, context)
        elif kind == "subshell":
            with self.apart():
                self.statements(node, script, variables.copy(), context)
        elif kind == "function_definition":
            self.define(node, script, variables)
        elif kind in ("comment", "test_command", "heredoc_body", "heredoc_start", "heredoc_end", "file_redirect"):
            pass
        elif kind == "negated_command":
            self.statements(node, script, variables, structs.replace(context, tested=True))
        else:  # groups, errors, and what newer grammars bring
            self.statements(node, script, variables, context)

    def writes(self, node: "Node", redirection: Redirects, expander: Expander, context: Context) -> None:
        """`echo "export A=1" >> env.sh`: what a file holds that may be read later."""
        name = redirection.target.rsplit("/", 1)[-1]
        before = self.files.get(name) if redirection.adds else None
        text = written_by(node.named_children[0], expander) if node.named_children else None
        if text is None or context.conditional or (redirection.adds and before is not None and before.placeholders):
            self.files.pop(name, None)  # another one than was given
            return
        self.files[name] = ShellSource.of_runs([CommandRun((before.text if before else "") + text)], self.lines)

    def own_variables(self, node: "Node", script: Script, variables: Variables) -> None:
        """`local`, and `declare` in a function: what they hide comes back when it ends."""
        words = [written(child, script) for child in node.children]
        if not self.locals or words[0] not in ("local", "declare", "typeset") or "-g" in words:
            return
        for word, child in zip(words[1:], node.children[1:], strict=True):
            name = word.partition("=")[0]
            if name.isidentifier():
                before = variables.get(name)
                if name not in self.locals[-1]:
                    self.locals[-1][name] = before
                    if before is not None and child.type != "variable_assignment":
                        variables.unset(name)

    def redirected(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        expander = Expander(script.source, variables, context.where)
        redirection = redirects(node, expander)
        if redirection.document is not None:
            self.heredocs.append(redirection.document)
        if redirection.adds:
            self.added_to.add(redirection.target.rsplit("/", 1)[-1])
        for name_, source, section in redirection.writes:
            before = self.files.pop(name_, None) if redirection.adds else None
            if before is None:
                self.files[name_] = source
            elif not (before.placeholders or source.placeholders or context.conditional):
                self.files[name_] = before.and_then(source)  # else another one than was given
            self.written.append(section)
        if redirection.target and not redirection.writes:
            self.writes(node, redirection, expander, context)
        body = node.child_by_field_name("body") or (node.named_children[0] if node.named_children else None)
        if body is not None and body.type == "command":
            self.command(body, script, variables, context, redirection)
        elif body is not None and body.type not in ("heredoc_redirect", "file_redirect", "herestring_redirect"):
            self.statement(body, script, variables, context)
        prints = body is not None and written(body, script).strip() == "cat"
        given = redirection.stdin if prints else context.given
        for command in redirection.commands:
            self.statement(command, script, variables, structs.replace(context, given=given))


def _last_wait(root: "Node", text: str) -> int:
    """Where the last `wait` stands that is a command."""
    for match in list(WAIT.finditer(text))[-50:][::-1]:
        node = root.descendant_for_byte_range(match.start(), match.end())
        if node is not None and node.parent is not None and node.parent.type == "command_name":
            return match.start()
    return -1
