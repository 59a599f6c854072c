"""What a test (`[ "$NODE_RANK" = 0 ]`) decides."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.gaps import ANGLED
from gpudoctor.lint.shell.arithmetic import Unknown, evaluate
from gpudoctor.lint.shell.expand import Expander, pattern_of
from gpudoctor.lint.shell.source import CommandRun

if TYPE_CHECKING:
    from tree_sitter import Node

NODE_RANK = lazy_re(
    r"(?:\w*_)?(?:node_?(?:rank|id|index|idx|number|num)|machine_?rank|host_?rank|group_?rank|proc_?id|rank|worker_?(?:id|index|rank)"
    r"|completion_?index|task_?index|pod_?index)",
    re.IGNORECASE,
)
NOT_NODE_RANK = lazy_re(r"local|nodes$|num_nodes|nnodes", re.IGNORECASE)
COMPARED = lazy_re(r"\(\(\s*\$?\{?(\w+)\}?\s*==\s*(\d{1,6})\s*\)\)", re.ASCII)


class Decision(NamedTuple):
    """`outcome`: None when it cannot be told. `node`: the only node rank that comes through."""

    outcome: bool | None = None
    node: int | None = None


UNDECIDED = Decision()


def is_node_rank(name: str) -> bool:
    return NODE_RANK.fullmatch(name) is not None and NOT_NODE_RANK.search(name) is None


def decide(node: "Node", expander: Expander) -> Decision:
    """Of a `test_command`, a `test` command, or `((...))`."""
    text = expander.source.text
    written = text[node.start_byte : node.end_byte]
    if written.startswith("(("):
        return _arithmetic(written, expander)
    if node.type == "negated_command":
        inner = decide(node.named_children[0], expander) if node.named_children else UNDECIDED
        return Decision(None if inner.outcome is None else not inner.outcome)
    if node.type == "command":  # test A = B
        places = [(child.start_byte, child.end_byte) for child in node.children if child.type != "command_name"]
    else:
        places = [place for child in node.children[1:-1] for place in _places(child, 0)]
    return Test(places, expander, written.startswith("[[")).decision()


def _arithmetic(written: str, expander: Expander) -> Decision:
    match = COMPARED.fullmatch(written)
    try:
        outcome = bool(evaluate(expander.spelled(written[2:-2]), expander.number_of))
    except Unknown:
        outcome = None
    node = int(match[2]) if match is not None and is_node_rank(match[1]) else None
    return Decision(outcome, node)


def _places(node: "Node", depth: int) -> Iterator[tuple[int, int]]:
    """The words of a test, signs among them."""
    if node.type in ("binary_expression", "unary_expression", "parenthesized_expression") and depth < 20:
        for child in node.children:
            yield from _places(child, depth + 1)
    elif node.type != "comment":
        yield node.start_byte, node.end_byte


class Test:
    """What stands in `[ ]` or `[[ ]]`: `!`, `&&` or `-a`, `||` or `-o`, brackets, and questions."""

    def __init__(self, places: list[tuple[int, int]], expander: Expander, double: bool) -> None:
        self.places = places
        self.expander = expander
        self.double = double
        self.signs = [expander.source.text[start:end].strip() for start, end in places]
        self.at = 0

    def decision(self) -> Decision:
        if not self.places or len(self.places) > 60:
            return UNDECIDED
        decision = self.either()
        return decision if self.at == len(self.places) else UNDECIDED

    def sign(self, ahead: int = 0) -> str:
        return self.signs[self.at + ahead] if self.at + ahead < len(self.signs) else ""

    def either(self) -> Decision:
        left = self.both()
        while self.sign() in ("||", "-o"):
            self.at += 1
            right = self.both()
            outcomes = (left.outcome, right.outcome)
            left = Decision(True if True in outcomes else None if None in outcomes else False)
        return left

    def both(self) -> Decision:
        left = self.one()
        while self.sign() in ("&&", "-a"):
            self.at += 1
            right = self.one()
            outcomes = (left.outcome, right.outcome)
            outcome = False if False in outcomes else None if None in outcomes else True
            left = Decision(outcome, left.node if left.node is not None else right.node)
        return left

    def one(self) -> Decision:
        left = len(self.signs) - self.at
        binary = self.sign(1) in BINARY
        if self.sign() == "!" and left > 1 and not binary:
            self.at += 1
            inner = self.one()
            return Decision(None if inner.outcome is None else not inner.outcome)
        if self.sign() == "(" and left > 2 and not binary:
            self.at += 1
            inner = self.either()
            self.at += 1
            return inner if self.signs[self.at - 1 : self.at] == [")"] else UNDECIDED
        if binary and left > 2:
            return self.compared()
        if re.fullmatch(r"-[A-Za-z]", self.sign()) and left > 1:
            self.at += 2
            value = _text(self.expander.runs(*self.places[self.at - 1]))
            if self.signs[self.at - 2] == "-v" and value:
                return Decision(True if self.expander.variables.is_set(value) and value.isidentifier() else None)
            if self.signs[self.at - 2] not in ("-z", "-n") or value is None:
                return UNDECIDED
            return Decision((value == "") == (self.signs[self.at - 2] == "-z"))
        self.at += 1
        value = _text(self.expander.runs(*self.places[self.at - 1]))
        return Decision(None if value is None else value != "")

    def compared(self) -> Decision:
        sign = self.sign(1)
        left, right = (self.expander.runs(*self.places[self.at + offset]) for offset in (0, 2))
        self.at += 3
        texts = [_counted(side, self.expander) if sign.startswith("-") else _text(side) for side in (left, right)]
        if self.double and sign in ("=", "==", "!=") and None not in texts:
            outcome = _fits(texts[0] or "", right)
            return Decision(outcome if outcome is None or sign != "!=" else not outcome, _node(left, sign, right))
        return Decision(_compared(texts[0], sign, texts[1]), _node(left, sign, right))


BINARY = ("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~", "<", ">", "-nt", "-ot", "-ef")


def _fits(text: str, pattern: list[CommandRun]) -> bool | None:
    """Whether a text is of a pattern of `[[ ]]`; signs of it in quotes are plain."""
    if any("\\" in run.text or "(" in run.text for run in pattern if not run.quoted) or len(text) > 256:
        return None
    made = pattern_of(pattern)
    return fnmatchcase(text, re.sub(r"\[\^", "[!", made)) if made.count("*") <= 5 else None


def _counted(runs: list[CommandRun], expander: Expander) -> str | None:
    """A number that may be the scheduler's: of `$SLURM_NNODES`."""
    if len(runs) == 1 and not runs[0].known and len(runs[0].expansions) == 1:
        expansion = runs[0].expansions[0]
        return (
            expander.number_of(expansion.name)
            if expansion.raw in (f"${expansion.name}", f"${{{expansion.name}}}")
            else None
        )
    return _text(runs)


def _node(left: list[CommandRun], sign: str, right: list[CommandRun]) -> int | None:
    if sign not in ("=", "==", "-eq"):
        return None
    for one, other in ((left, right), (right, left)):
        names = [expansion.name for run in one for expansion in run.expansions]
        number = _text(other)
        if names and is_node_rank(names[0]) and number is not None and re.fullmatch(r"\d{1,6}", number, re.ASCII):
            return int(number)
    return None


def _text(runs: list[CommandRun]) -> str | None:
    """None where it is not known, and for a gap that the reader is to fill in: `if [ "$ACCOUNT" = "<ACCOUNT>" ]`."""
    text = "".join(run.text for run in runs) if all(run.known for run in runs) else None
    return None if text is not None and ANGLED.fullmatch(text) else text


def _compared(left: str | None, sign: str, right: str | None) -> bool | None:
    if left is None or right is None:
        return None
    if sign in ("=", "=="):
        return None if re.search(r"[*?\[]", right) else left == right
    if sign == "!=":
        return None if re.search(r"[*?\[]", right) else left != right
    if not all(re.fullmatch(r"-?\d{1,15}", side, re.ASCII) for side in (left, right)):
        return None
    a, b = int(left), int(right)
    return {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}.get(sign)
