"""What a test (`[ "$NODE_RANK" = 0 ]`) decides."""

import re
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.lint.shell.arithmetic import Unknown, evaluate
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.source import CommandRun

if TYPE_CHECKING:
    from tree_sitter import Node

NODE_RANK = re.compile(
    r"(?:\w*_)?(?:node_?(?:rank|id|index|idx|number|num)|machine_?rank|host_?rank|group_?rank|proc_?id|rank|worker_?(?:id|index|rank)"
    r"|completion_?index|task_?index|pod_?index)",
    re.IGNORECASE,
)
NOT_NODE_RANK = re.compile(r"local|nodes$|num_nodes|nnodes", re.IGNORECASE)
GAP = re.compile(r"<[A-Za-z][\w .:/-]*>")
COMPARED = re.compile(r"\(\(\s*\$?\{?(\w+)\}?\s*==\s*(\d{1,6})\s*\)\)", re.ASCII)


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
    if node.type == "command":
        words = [child for child in node.children if child.type != "command_name"]
        return _flat([(child.start_byte, child.end_byte) for child in words], expander)
    expression = next((child for child in node.named_children if child.type != "comment"), None)
    return _expression(expression, expander, 0) if expression is not None else UNDECIDED


def _arithmetic(written: str, expander: Expander) -> Decision:
    match = COMPARED.fullmatch(written)
    try:
        outcome = bool(evaluate(written[2:-2], expander.number_of))
    except Unknown:
        outcome = None
    node = int(match[2]) if match is not None and is_node_rank(match[1]) else None
    return Decision(outcome, node)


def _expression(node: "Node", expander: Expander, depth: int) -> Decision:
    if depth > 20:
        return UNDECIDED
    kinds = [child.type for child in node.children]
    if node.type == "parenthesized_expression" and node.named_children:
        return _expression(node.named_children[0], expander, depth + 1)
    if node.type == "binary_expression" and "&&" in kinds and len(kinds) == 3:
        left, right = (_expression(node.children[side], expander, depth + 1) for side in (0, 2))
        outcome = False if False in (left.outcome, right.outcome) else (left.outcome and right.outcome)
        return Decision(outcome, left.node if left.node is not None else right.node)
    if node.type == "binary_expression" and "||" in kinds:
        return UNDECIDED
    return _flat([(child.start_byte, child.end_byte) for child in node.children], expander)


def _flat(places: list[tuple[int, int]], expander: Expander) -> Decision:
    text = expander.source.text
    parts = [text[start:end].strip() for start, end in places]
    if len(places) == 2 and parts[0] in ("-z", "-n"):
        value = _text(expander.runs(*places[1]))
        if value is None:
            return UNDECIDED
        return Decision((value == "") == (parts[0] == "-z"))
    if len(places) != 3:
        return UNDECIDED
    sign = parts[1]
    left, right = expander.runs(*places[0]), expander.runs(*places[2])
    texts = [_counted(side, expander) if sign.startswith("-") else _text(side) for side in (left, right)]
    return Decision(_compared(texts[0], sign, texts[1]), _node(left, sign, right))


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
    return None if text is not None and GAP.fullmatch(text) else text


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
