"""Redirections: here-documents, files that a text writes, and words that the grammar put behind them."""

from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import TextSection
from gpudoctor.lint.shell.expands import Expands
from gpudoctor.lint.shell.source import ShellSource

if TYPE_CHECKING:
    from tree_sitter import Node


_ESCAPED = lazy_re(r"\\([$`\\])")


class Redirects(Struct, frozen=True):
    """`stdin`: what the command reads. `extra`: words of the command behind a redirection. `writes`: name and text of
    files. `commands`: what follows in the same pipeline."""

    stdin: ShellSource | None = None
    extra: "list[tuple[int, int]]" = []
    writes: "list[tuple[str, ShellSource, TextSection]]" = []
    commands: "list[Node]" = []
    target: str = ""
    """The file that it writes, and whether it adds to it."""
    adds: bool = False
    document: tuple[int, int] | None = None
    """Where the here-document stands in the whole text."""


def redirects(node: "Node", expander: Expands) -> Redirects:
    """Of a `redirected_statement` or a `command`."""
    source = expander.source
    stdin: ShellSource | None = None
    raw: tuple[int, int] | None = None
    opens: str | None = None
    extra: list[tuple[int, int]] = []
    commands: list[Node] = []
    target = ""
    children = list(node.children)
    for before, child in zip((*children[:1], *children), children, strict=False):
        if child.type == "heredoc_redirect":
            if source.text[before.end_byte : child.start_byte].strip() == "-":
                at = source.text.index("-", before.end_byte)  # the grammar has no node for it: `python - <<E word`
                extra.append((at, at + 1))
            body = next((inner for inner in child.children if inner.type == "heredoc_body"), None)
            start = next((inner for inner in child.children if inner.type == "heredoc_start"), None)
            if body is not None and start is not None:
                raw = _body(source.text, body)
                opens = _written(source, start)
                stdin = _source(source, raw, opens, expander)
            for each in child.children:
                if each.type == "file_redirect":
                    target = _target(each, expander, extra) or target
                elif each.type in ("pipeline", "list", "command"):
                    commands.append(each)
                elif each.type == "ERROR" and source.text[each.start_byte : each.end_byte].strip() in ("&", ";"):
                    continue  # `ssh host <<E &`: no word of the command
                elif each.is_named and each.type not in (
                    "heredoc_body",
                    "heredoc_start",
                    "heredoc_end",
                    "file_descriptor",
                ):
                    extra.append((each.start_byte, each.end_byte))
        elif child.type == "file_redirect":
            target = _target(child, expander, extra) or target
        elif child.type == "herestring_redirect":
            inner = [inner for inner in child.children if inner.is_named]
            if inner:
                runs = expander.runs(inner[0].start_byte, inner[0].end_byte)
                stdin = ShellSource.of_runs(runs, source.lines)
    writes: list[tuple[str, ShellSource, TextSection]] = []
    if raw is not None and stdin is not None:
        target = target or _tee(node, source)
        if target:
            name = target.rsplit("/", 1)[-1]
            first, _last, exact = source.place(*raw)
            if exact:
                text = source.text[raw[0] : raw[1]]
                if opens is not None and not set("'\"\\") & set(opens):
                    text = "\n".join(map(_as_it_is_written, text.split("\n")))
                section = TextSection("file", name=name, text=text, start=first, line=source.lines.at(first))
                writes.append((name, stdin, section))
    within = [each for child in children if child.type == "heredoc_redirect" for each in child.children]
    files = (each for each in (*children, *within) if each.type == "file_redirect")
    adds = any(child.type == ">>" for each in files for child in each.children)
    return Redirects(stdin, extra, writes, commands, target, adds, source.place(*raw)[:2] if raw is not None else None)


def _as_it_is_written(line: str) -> str:
    """A line of a document whose delimiter is plain: `\\$` is written as `$`. Blanks keep its length: line numbers and
    ends of lines stay where they are."""
    plain = _ESCAPED.sub(r"\1", line)
    lost = " " * (len(line) - len(plain))
    return f"{plain[:-1]}{lost}\\" if plain.endswith("\\") else plain + lost


def _written(source: ShellSource, node: "Node") -> str:
    return source.text[node.start_byte : node.end_byte]


def _body(text: str, body: "Node") -> tuple[int, int]:
    """The lines of the document. The grammar leaves blanks at its begin out."""
    start = body.start_byte
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():
        start = line
    return start, body.end_byte


def _source(source: ShellSource, raw: tuple[int, int], delimiter: str, expander: Expands) -> ShellSource:
    if source.places is None and ("'" in delimiter or '"' in delimiter or "\\" in delimiter):
        return ShellSource(source.text[raw[0] : raw[1]], source.lines, source.base + raw[0])
    quoted = "'" in delimiter or '"' in delimiter or "\\" in delimiter
    if quoted:
        inner = ShellSource(source.text[raw[0] : raw[1]], source.lines)
        inner.places = source.places[raw[0] : raw[1]] if source.places is not None else None
        inner.placeholders = source.placeholders
        return inner
    if "$" not in source.text[raw[0] : raw[1]] and "\\" not in source.text[raw[0] : raw[1]] and source.places is None:
        return ShellSource(source.text[raw[0] : raw[1]], source.lines, source.base + raw[0])
    return ShellSource.of_runs(expander.runs(raw[0], raw[1], "here"), source.lines)


def _target(node: "Node", expander: Expands, extra: list[tuple[int, int]]) -> str:
    """The file that `> file` writes. The grammar takes the words behind it for more of the same."""
    operator = next((child.type for child in node.children if not child.is_named), "")
    destinations = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
    extra += [(child.start_byte, child.end_byte) for child in destinations[1:] if not child.is_error]
    if operator not in (">", ">>", ">|") or not destinations:
        return ""
    runs = expander.runs(destinations[0].start_byte, destinations[0].end_byte)
    return "".join(run.text for run in runs)


def _tee(node: "Node", source: ShellSource) -> str:
    """`tee hostfile <<EOF`."""
    words = source.text[node.start_byte : node.end_byte].split("<<", 1)[0].split()
    while words and words[0] in ("sudo", "-a", "-E"):
        words = words[1:]
    files = [word for word in words[1:] if not word.startswith("-")]
    return files[0] if words and words[0] == "tee" and files else ""
