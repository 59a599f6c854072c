"""The values of a loop, the patterns of a `case`."""

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.shell.arithmetic import Unknown, evaluate
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.fields import fields
from gpudoctor.lint.shell.guards import is_node_rank
from gpudoctor.lint.shell.source import CommandRun

if TYPE_CHECKING:
    from tree_sitter import Node

MOST = 64
SEQ = lazy_re(r"(?:\$\(|`)\s*seq\s+(?:-\w+\s+)*([^()`]{1,120}?)\s*[)`]")
COUNTED = lazy_re(
    r"for\s*\(\(\s*(\w+)\s*=\s*([^;]{1,80}?)\s*;\s*(\w+)\s*(<=?|>=?|!=)\s*([^;]{1,80}?)\s*;\s*([^;]{1,40}?)\s*\)\)",
    re.ASCII,
)


def values_of(node: "Node", expander: Expander) -> list[list[CommandRun]] | None:
    """What a `for` goes through; None when it is not known, or more than 64 values."""
    text = expander.source.text
    values: list[list[CommandRun]] = []
    variable = node.child_by_field_name("variable")
    body = node.child_by_field_name("body")
    listed = False
    for child in node.children:
        if child.type == "in":
            listed = True
        if not child.is_named or child in (variable, body) or child.type == "comment":
            continue
        written = text[child.start_byte : child.end_byte]
        made = _static(written, expander, child.start_byte)
        if made is None:
            made = fields(expander.runs(child.start_byte, child.end_byte), expander.variables.separators)
            if any(not run.known and run.splits for words_made in made for run in words_made):
                return None
        values += made
        if len(values) > MOST:
            return None
    if not listed:
        arguments = expander.variables.get("@")
        if arguments is None or arguments.items is None:
            return None
        values = [list(item) for item in arguments.items]
    return values if len(values) <= MOST else None


def _static(written: str, expander: Expander, at: int) -> list[list[CommandRun]] | None:
    """`$(seq 0 $((N-1)))`."""
    match = SEQ.fullmatch(written)
    if match is None:
        return None
    start = at + match.start(1)
    numbers: list[int] = []
    for field in fields(expander.runs(start, start + len(match[1]))):
        for part in "".join(run.text if run.known else "?" for run in field).split():
            if re.fullmatch(r"-?\d{1,6}", part, re.ASCII) is None:
                return None
            numbers.append(int(part))
    if not 1 <= len(numbers) <= 3:
        return None
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (
        (numbers[0], 1, numbers[1]) if len(numbers) == 2 else (numbers[0], numbers[1], numbers[2])
    )  # fmt: skip
    if step == 0 or abs((last - first) // step) >= MOST:
        return None
    return [[CommandRun(str(number))] for number in range(first, last + (1 if step > 0 else -1), step)]


def counted(head: str, expander: Expander) -> tuple[str, list[list[CommandRun]] | None]:
    """`for ((i = 0; i < N; i++))` -> the variable and its values."""
    match = COUNTED.match(head)
    if match is None or match[1] != match[3]:
        begin_of_it = re.match(r"for\s*\(\(\s*(\w+)", head)
        return (begin_of_it[1] if begin_of_it else ""), None
    groups: tuple[str, ...] = match.groups()
    counter, first, _, sign, last, step = groups
    steps = {f"{counter}++": 1, f"++{counter}": 1, f"{counter}--": -1, f"--{counter}": -1, f"{counter}+=1": 1}
    by = steps.get(re.sub(r"\s", "", step))
    try:
        begin, bound = evaluate(first, expander.number_of), evaluate(last, expander.number_of)
    except Unknown:
        return counter, None
    if by is None:
        return counter, None
    end = {"<": bound, "<=": bound + 1, ">": bound, ">=": bound - 1, "!=": bound}[sign]
    if abs(end - begin) > MOST:
        return counter, None
    return counter, [[CommandRun(str(number))] for number in range(begin, end, by)]


def case_parts(item: "Node") -> "tuple[list[Node], list[Node]]":
    """The patterns of a `case_item`, and its statements."""
    patterns: list[Node] = []
    body: list[Node] = []
    behind = False
    for child in item.children:
        if child.type == ")":
            behind = True
        elif behind:
            body.append(child)
        elif child.is_named:
            patterns.append(child)
    return patterns, body


def case_end(item: "Node") -> str:
    """`;;`, `;&` or `;;&`."""
    return next((child.type for child in item.children if child.type.startswith(";")), ";;")


def case_fits(value: str | None, patterns: "list[Node]", expander: Expander) -> bool | None:
    """Whether a known value comes to these patterns; None where that cannot be told."""
    if value is None or len(value) > 256:
        return None
    text = expander.source.text
    for pattern in patterns:
        written = text[pattern.start_byte : pattern.end_byte].strip()
        runs = expander.runs(pattern.start_byte, pattern.end_byte)
        if not all(run.known for run in runs) or "(" in written or written.count("*") > 3:
            return None
        if any(run.quoted and re.search(r"[*?\[]", run.text) for run in runs):
            return None
        if fnmatchcase(value, "".join(run.text for run in runs).strip()):
            return True
    return False


def case_guard(value: list[CommandRun], patterns: list[str]) -> int | None:
    """The node rank that alone gets here."""
    names = [expansion.name for run in value for expansion in run.expansions]
    if not names or not is_node_rank(names[0]) or len(patterns) != 1:
        return None
    plain = patterns[0].strip("\"'")
    return int(plain) if re.fullmatch(r"\d{1,6}", plain, re.ASCII) else None
