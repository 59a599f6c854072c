"""`$(...)` whose output the text decides: pure programs over known words, functions that print, `cat <<EOF`."""

from typing import TYPE_CHECKING

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Span, Word
from gpudoctor.lint.shell.binding import positional
from gpudoctor.lint.shell.context import Function
from gpudoctor.lint.shell.expands import Expands
from gpudoctor.lint.shell.fields import fields
from gpudoctor.lint.shell.heredocs import redirects
from gpudoctor.lint.shell.parse import TooTangled, parse
from gpudoctor.lint.shell.pure import NotPure, printed
from gpudoctor.lint.shell.source import CommandRun, ShellSource

if TYPE_CHECKING:
    from tree_sitter import Node


LONGEST = 4096
DEEPEST = 4
MOST_STATEMENTS = 20
MOST_FOLLOWED = 1000
"""In one text: far more than any script has, and some hundredths of a second."""
_OWN_NAME = (("hostname",), ("hostname", "-s"), ("hostname", "-f"), ("hostname", "--short"), ("uname", "-n"))
"""What prints the name of the node that runs it."""
NO_OUTPUT = lazy_re(r"2>\s*(?:/dev/null|&1)")
NOWHERE = Word(raw="", text=None, shown="", span=Span(0, 0, 1, exact=False))


def output(expander: Expands, start: int, end: int) -> list[CommandRun] | None:
    """What the commands in `text[start:end]` print, without the line ends behind it; None where nobody knows."""
    source = inside(expander.source, start, end)
    if not source.text.strip() or end - start > (1 << 16) or expander.nested >= DEEPEST:
        return None
    source.lines.followed += 1 + len(source.text) // 200
    if source.lines.followed > MOST_FOLLOWED:
        return None
    try:
        root = parse(source.text)
    except TooTangled:
        return None

    inner = expander.inner(source, expander.variables)
    statements = [child for child in root.named_children if child.type != "comment"]
    if len(statements) == 1 and (document := _document(statements[0], inner)) is not None:
        return document
    if end - start > LONGEST or root.has_error:
        return None
    try:
        text = _all(statements, inner, None)
    except NotPure:
        return None
    return [CommandRun(text.rstrip("\n"))]


def written_by(node: "Node", expander: Expands) -> str | None:
    """What `echo ... > file` puts into the file; None where nobody knows."""
    nodes = node.named_children if node.type == "compound_statement" else [node]
    try:
        return _all([each for each in nodes if each.type != "comment"], expander, None)
    except NotPure:
        return None


def inside(source: ShellSource, start: int, end: int) -> ShellSource:
    """A stretch of a source as a source of its own, which knows where it stands."""
    made = ShellSource(source.text[start:end], source.lines, source.base + start)
    if source.places is not None:
        made.places = source.places[start:end]
    made.placeholders = source.placeholders
    return made


def runs_of(source: ShellSource) -> list[CommandRun]:
    """A source as the pieces of a word."""
    if source.places is None:
        return [CommandRun(source.text, source.base, source.base + len(source.text), quoted=True)]
    command_runs: list[CommandRun] = []
    for sign, (first, last) in zip(source.text, source.places, strict=False):
        if sign in source.placeholders:
            command_runs.append(source.placeholders[sign])
        elif (
            command_runs
            and command_runs[-1].exact
            and command_runs[-1].known
            and command_runs[-1].end == first
            and last == first + 1
        ):
            command_runs[-1] = command_runs[-1]._replace(text=command_runs[-1].text + sign, end=last)
        else:
            command_runs.append(CommandRun(sign, first, last, quoted=True))
    return command_runs


def _document(node: "Node", expander: Expands) -> list[CommandRun] | None:
    """Of `cat <<EOF`: the document."""
    if node.type != "redirected_statement" or not node.named_children:
        return None
    text = expander.source.text
    if text[node.named_children[0].start_byte : node.named_children[0].end_byte].strip() != "cat":
        return None

    redirected = redirects(node, expander)
    if redirected.stdin is None or redirected.extra or redirected.commands:
        return None
    return runs_of(redirected.stdin)


def _all(nodes: "list[Node]", expander: Expands, given: str | None) -> str:
    if len(nodes) > MOST_STATEMENTS:
        raise NotPure
    return "".join(_one(node, expander, given) for node in nodes)


def _one(node: "Node", expander: Expands, given: str | None) -> str:
    if node.type == "command":
        return _command(node, expander, given)
    if node.type == "pipeline":
        for named_child in node.named_children:
            given = _one(named_child, expander, given)
        return given or ""
    if node.type == "redirected_statement" and node.named_children:
        body, *others = node.named_children
        text = expander.source.text
        if any(
            other.type == "file_redirect" and not NO_OUTPUT.fullmatch(text[other.start_byte : other.end_byte])
            for other in others
        ):
            raise NotPure
        redirected = redirects(node, expander)
        if redirected.commands or redirected.extra:
            raise NotPure
        return _one(body, expander, _text_of(redirected.stdin) if redirected.stdin is not None else given)
    raise NotPure


def _text_of(source: ShellSource) -> str:
    if any(sign in source.placeholders for sign in source.text):
        raise NotPure
    return source.text if source.text.endswith("\n") else source.text + "\n"


def _command(node: "Node", expander: Expands, given: str | None) -> str:
    words: list[list[CommandRun]] = []
    for child in node.children:
        if child.type == "herestring_redirect":
            inner = [inner for inner in child.children if inner.is_named]
            runs = expander.runs(inner[0].start_byte, inner[0].end_byte) if inner else []
            given = _known(runs) + "\n"
        elif child.type in ("variable_assignment", "file_redirect", "heredoc_redirect"):
            raise NotPure
        elif child.end_byte > child.start_byte:
            words += fields(expander.runs(child.start_byte, child.end_byte))
    texts = [_known(word) for word in words]
    if not texts:
        raise NotPure
    if tuple(texts) in _OWN_NAME and (own := expander.seat.get("HOSTNAME")) is not None:
        return own + "\n"
    function = expander.variables.functions.get(texts[0])
    if function is not None:
        return _function(function, words[1:], expander)
    return printed(texts, given)


def _known(runs: list[CommandRun]) -> str:
    if not all(run.known for run in runs):
        raise NotPure
    return "".join(run.text for run in runs)


def _function(function: object, arguments: list[list[CommandRun]], expander: Expands) -> str:
    """A function whose statements print."""

    if not isinstance(function, Function) or expander.nested >= DEEPEST:
        raise NotPure
    own = expander.variables.copy()
    positional([tuple(argument) for argument in arguments], NOWHERE, own)
    inner = expander.inner(function.script.source, own)
    made = _all([child for child in function.body.named_children if child.type != "comment"], inner, None)
    function.called = True
    return made
