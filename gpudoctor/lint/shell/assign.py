"""What sets variables: assignments, `export`, `read`."""

import re
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import SetVariable, Word
from gpudoctor.lint.shell.counting import count, set_number
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.fields import fields, word
from gpudoctor.lint.shell.source import CommandRun
from gpudoctor.lint.shell.variables import ShellVariable, Variables

if TYPE_CHECKING:
    from tree_sitter import Node

NAME = lazy_re(r"[A-Za-z_]\w*", re.ASCII)
ASSIGNED = lazy_re(r"\s*([A-Za-z_]\w*)(\[[^]]*\])?(\+?=)", re.ASCII)
MOST_ITEMS = 1024
How = Literal["prefix", "export", "assignment"]


def assign(node: "Node", expander: Expander, how: How, *, exported: bool, into: Variables | None = None) -> None:
    """A `variable_assignment`."""
    text = expander.source.text
    match = ASSIGNED.match(text, node.start_byte, node.end_byte)
    if match is None:
        return
    name, index, sign = match.groups()
    target = expander.variables if into is None else into
    start, end = match.end(), node.end_byte
    array = next((child for child in node.children if child.type == "array"), None)
    items: tuple[tuple[CommandRun, ...], ...] | None = None
    several = False
    before = target.get(name)
    if array is not None:
        listed: list[tuple[CommandRun, ...]] = []
        for child in array.children:
            if child.is_named and child.type != "comment":
                listed += [tuple(field) for field in fields(expander.runs(child.start_byte, child.end_byte))]
        if sign == "+=" and before is not None and before.items is not None:
            listed = [*before.items, *listed]
        unsure = [at for at in range(len(listed)) if _any_number(listed, at)]
        several = bool(unsure) or (sign == "+=" and before is not None and before.open)
        # hosts=($(scontrol show hostnames)): nothing of it is known
        items = tuple(listed[:MOST_ITEMS]) if len(unsure) < len(listed) or not listed else None
        runs: tuple[CommandRun, ...] | None = listed[0] if listed and 0 not in unsure else None
    else:
        runs = tuple(expander.runs(start, end))
        if sign == "+=" and before is not None and before.runs is not None:
            runs = (*before.runs, *runs)
        elif sign == "+=" and before is not None:
            runs = None
    is_itself = array is None and index is None and sign != "+=" and _is_itself(name, text[start:end])
    if is_itself and before is None and target.is_set(name) is False:
        return  # `export PORT="$PORT"` sets nothing
    value = word(expander.source, start, end, list(runs or ()))
    if runs is None:
        first = text[start:end]
        value = Word(raw=first, text=None, shown=first, span=value.span, expansions=value.expansions)
    if index is not None:
        if before is not None and before.items is not None and re.fullmatch(r"\[\d{1,4}\]", index):
            number = int(index[1:-1])
            if number <= len(before.items) and runs is not None:
                items = (*before.items[:number], runs, *before.items[number + 1 :])
        runs = items[0] if items else None
    target.set(name, ShellVariable(SetVariable(name, value, exported, how), runs, items, open=several))


def _is_itself(name: str, written: str) -> bool:
    plain = written.strip().strip('"')
    return plain in (f"${name}", f"${{{name}}}")


def _any_number(items: list[tuple[CommandRun, ...]], at: int) -> bool:
    """Whether an element may be any number of words: an unknown piece outside quotes that stands alone, and is not the
    value of the option before it."""
    runs = [run for run in items[at] if run.text]
    if not runs or any(run.known or not run.splits for run in runs):
        return False
    option = "".join(run.text for run in items[at - 1]) if at else ""
    return not (option.startswith("-") and "=" not in option)


def declare(node: "Node", expander: Expander) -> None:
    """`export`, `declare`, `typeset`, `readonly`, `local`."""
    text = expander.source.text
    words = [text[child.start_byte : child.end_byte] for child in node.children]
    exported = words[0] == "export" or any(re.match(r"-[A-Za-z]*x", written) for written in words[1:])
    how: How = "export" if exported else "assignment"
    removed = words[0] == "export" and "-n" in words
    if any(re.match(r"-[A-Za-z]*f", written) for written in words[1:]):
        if exported:
            expander.variables.handed_on |= {*words}
        return
    for child in node.children[1:]:
        written = text[child.start_byte : child.end_byte]
        if child.type == "variable_assignment":
            assign(child, expander, how, exported=exported and not removed)
            if any(re.match(r"-[A-Za-z]*i", written) for written in words[1:3]):
                _integer(child, expander)
            if any(re.match(r"-[A-Za-z]*n", written) for written in words[1:3]) and not exported:
                _other_name(written, expander)
        elif child.type in ("variable_name", "word") and NAME.fullmatch(written):
            known = expander.variables.get(written)
            if known is not None:
                if exported:
                    expander.variables.export(written, not removed)
            elif not exported:
                place = expander.source.span(child.start_byte, child.end_byte)
                empty = Word(raw="", text="", shown="", span=place)
                expander.variables.set(written, ShellVariable(SetVariable(written, empty, False, how), ()))
        elif child.is_named and not written.startswith("-"):
            _from_word(child, expander, how, exported)


def _other_name(written: str, expander: Expander) -> None:
    """`declare -n ref=PORT`: from here on both are what nobody knows."""
    for name in written.partition("=")[::2]:
        known = expander.variables.get(name)
        if known is not None:
            expander.variables.set(name, structs.replace(known, runs=None, items=None))


def _integer(node: "Node", expander: Expander) -> None:
    """`declare -i N=2*2`: the value is counted."""
    match = ASSIGNED.match(expander.source.text, node.start_byte, node.end_byte)
    variable = expander.variables.get(match[1]) if match is not None else None
    if match is None or variable is None or variable.text is None or variable.items is not None:
        return
    span = expander.source.span(node.start_byte, node.end_byte)
    set_number(expander.variables, match[1], count(variable.text, expander.variables, span), span)


def _from_word(node: "Node", expander: Expander, how: How, exported: bool) -> None:
    """`export "A=$B"`: the shell takes any word with an equals sign."""
    for runs in fields(expander.runs(node.start_byte, node.end_byte)):
        made = word(expander.source, node.start_byte, node.end_byte, runs)
        match = ASSIGNED.match(made.shown)
        if match is None or match[2]:
            continue
        left = match.end()
        rest: list[CommandRun] = []
        for run in runs:
            cut = min(left, len(run.text))
            left -= cut
            if not cut:
                rest.append(run)
            elif cut < len(run.text):
                rest.append(run._replace(text=run.text[cut:], start=run.start + cut if run.exact else run.start))
        value = Word(
            raw=made.shown[match.end() :],
            text=made.text[match.end() :] if made.text is not None else None,
            shown=made.shown[match.end() :],
            span=expander.source.lines.span(made.span.start, made.span.end, exact=False),
            expansions=made.expansions,
            quoted=made.quoted,
        )
        expander.variables.set(match[1], ShellVariable(SetVariable(match[1], value, exported, how), tuple(rest)))


def read_into(words: list[Word], variables: Variables) -> bool:
    """Whether this is `read`, `mapfile`, `printf -v`, `let` or `getopts`: they set variables to what nobody knows."""
    program = words[0].shown
    names: list[str] = []
    if program in ("read", "mapfile", "readarray"):
        # -t is read's time-out, and mapfile's "without the line's end"; -s hides what read reads, and skips lines
        skip = (
            ("-d", "-n", "-N", "-p", "-t", "-u", "-i")
            if program == "read"
            else ("-d", "-n", "-O", "-s", "-u", "-C", "-c")
        )
        at = 1
        while at < len(words):
            shown = words[at].shown
            if shown in skip:
                at += 1
            elif not shown.startswith("-"):
                names.append(shown)
            at += 1
        names = names or ["REPLY" if program == "read" else "MAPFILE"]
    elif (program == "printf" and len(words) > 2 and words[1].shown == "-v") or (
        program == "getopts" and len(words) > 2
    ):
        names = [words[2].shown]
    elif program == "let":
        names = [match[0] for written in words[1:] if (match := NAME.match(written.shown))]
    else:
        return False
    for name in names:
        if NAME.fullmatch(name):
            place = Word(raw="", text=None, shown=f"${name}", span=words[0].span)
            variables.set(name, ShellVariable(SetVariable(name, place, False, "assignment"), None))
    return True
