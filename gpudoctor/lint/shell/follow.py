"""Walks the tree of a shell text as the shell would, and gathers the commands."""

import re
from typing import TYPE_CHECKING

from msgspec import structs

from gpudoctor.lint.shell.assign import assign, declare
from gpudoctor.lint.shell.commands import Commands
from gpudoctor.lint.shell.context import DEEPEST, SHELL_DEPTH, Context, Exhausted, Script, statements_of, written
from gpudoctor.lint.shell.control import Control
from gpudoctor.lint.shell.counting import count
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.heredocs import Redirects, redirects
from gpudoctor.lint.shell.parse import TooTangled, parse
from gpudoctor.lint.shell.source import ShellSource
from gpudoctor.lint.shell.variables import Variables

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST_INNER = 1 << 17
WAIT = re.compile(r"(?<![\w.=/-])wait(?![\w.=/-])")


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
            self.statements(root, script, variables, context)
            self.uncalled(variables, script, context)
        except Exhausted:
            if context.shells:
                raise
            self.note(
                f"line {line}: the text from here on has more steps than are followed; its later commands were not read"
            )

    def statements(self, node: "Node", script: Script, variables: Variables, context: Context) -> None:
        self.block(statements_of(node.children), script, variables, context)

    def block(self, body: "list[tuple[Node, bool]]", script: Script, variables: Variables, context: Context) -> None:
        """`body`: statements, and whether an `&` follows."""
        for node, background in body:
            inside = context
            if background:
                waited = context.waited_for and script.last_wait >= node.end_byte
                inside = structs.replace(context, background=True, waited_for=waited)
            self.statement(node, script, variables, inside)

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
            declare(node, Expander(script.source, variables, context.where))
        elif kind == "unset_command":
            for named_child in node.named_children:
                variables.unset(written(named_child, script))
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
            count(written(node, script)[2:-2], variables, span)
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
        redirection = redirects(node, expander)
        if redirection.document is not None:
            self.heredocs.append(redirection.document)
        for name_, source, section in redirection.writes:
            self.files[name_] = source
            self.written.append(section)
        body = node.child_by_field_name("body") or (node.named_children[0] if node.named_children else None)
        if body is not None and body.type == "command":
            self.command(body, script, variables, context, redirection)
        elif body is not None and body.type not in ("heredoc_redirect", "file_redirect", "herestring_redirect"):
            self.statement(body, script, variables, context)
        for command in redirection.commands:
            self.statement(command, script, variables, context)


def _last_wait(root: "Node", text: str) -> int:
    """Where the last `wait` stands that is a command."""
    for match in list(WAIT.finditer(text))[-50:][::-1]:
        node = root.descendant_for_byte_range(match.start(), match.end())
        if node is not None and node.parent is not None and node.parent.type == "command_name":
            return match.start()
    return -1
