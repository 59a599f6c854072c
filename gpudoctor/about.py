"""What an id means that some command prints, wherever it is defined: checks, causes, rules, symptoms, tests."""

import ast
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from textwrap import indent

from msgspec import Struct

from gpudoctor.cause import Cause
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import command
from gpudoctor.envelope import FORMER
from gpudoctor.fault_classes import MEANS
from gpudoctor.fleet.fleet import LOST_IDS
from gpudoctor.lint.rule import LintRule, every_rule
from gpudoctor.nccl.lost import ADVICE
from gpudoctor.plugins import find_checks
from gpudoctor.said import SAID
from gpudoctor.said.one import Meaning
from gpudoctor.symptoms import TABLE
from gpudoctor.train.judge import KINDS

ASKED = "What to do depends on the machine, and names its devices, paths and versions: ask there."

CLASSED = (
    "What a program may branch on: `class` in the JSON of `explain` and `hang`. A fault has the class of its first "
    "cause, as far as that is seen; of several that fit, the narrowest."
)


class Entry(Struct, frozen=True, kw_only=True):
    """One meaning of an id."""

    id: str
    kind: str
    """ "check of group gpu", "cause", "rule of lint R01", "symptom"."""
    title: str
    text: str
    """Paragraphs."""
    fix: Fix | None = None
    more: tuple[str, ...] = ()
    """Other ids that belong to it."""


def _said() -> dict[str, Meaning]:
    """Of tests and single commands, with what their own tables say."""
    node = {"who": "a node", "missing": "some", "count": "the", "here": "the others"}
    rank = defaultdict(str, who="a rank", whose="a rank's", parameter="parameters")
    lost = {
        LOST_IDS[kind]: Meaning("nccl-test", _sentence(each.summary.format_map(node)), each.meaning, Fix(each.fix))
        for kind, each in ADVICE.items()
    }
    trained = {
        kind.id: Meaning("train-test", _sentence(kind.seen.format_map(rank)), kind.meaning, Fix(kind.fix, kind.lines))
        for kind in KINDS.values()
    }
    return SAID | lost | trained


def _sentence(text: str) -> str:
    words = " ".join(text.split())
    return f"{words[0].upper()}{words[1:]}."


def _kinds(cause: Cause) -> set[str]:
    """The classes that it may have."""
    return {cause.kind, *(judged.kind for judged in cause.judged.values())}


def _of_rule(rule: LintRule) -> str:
    """Its documentation, and a start that it finds wrong beside one that it finds right."""
    shown = (("Wrong", rule.bad[0]), ("Right", rule.good[0]))
    return "\n\n".join(
        (cleandoc(rule.documentation), *(f"{word}:\n{indent(example.text.strip(), '  ')}" for word, example in shown))
    )


def _each() -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Every entry with the ids by which it is asked for."""
    for check in find_checks()[0]:
        yield (
            (check.id, *check.aliases),
            Entry(
                id=check.id,
                kind=f"check of group {check.group}",
                title=f"Healthy: {check.title}",
                text=check.documentation,
                fix=Fix(ASKED, (command("gpudoctor check {:name}", check.id),)),
                more=check.follows,
            ),
        )
    for kind, meaning in MEANS.items():
        of_kind = tuple(id for id, cause in CAUSES.items() if kind in _kinds(cause))
        yield (kind,), Entry(id=kind, kind="class of faults", title=_sentence(meaning), text=CLASSED, more=of_kind)
    for id, cause in CAUSES.items():
        text = f"{cause.meaning}\n\nTo be sure: {cause.confirm}"
        yield (id,), Entry(id=id, kind="cause", title=cause.title, text=text, fix=cause.fix, more=cause.foreseen_by)
    for rule in every_rule():
        yield (
            (rule.id, rule.code),
            Entry(
                id=rule.id,
                kind=f"rule {rule.code} of lint",
                title=f"Right: {rule.title}",
                text=_of_rule(rule),
                more=rule.leads_to,
            ),
        )
    for symptom in TABLE:
        of = CAUSES.get(symptom.cause)
        yield (
            (symptom.id,),
            Entry(
                id=symptom.id,
                kind="symptom of a log",
                title=symptom.seen[-1].format_map(defaultdict(lambda: "...")),
                text=of.meaning if of else "A line that tells a fact of the job; by itself it blames nobody.",
                fix=of.fix_for(symptom.variant) if of else None,
                more=(symptom.cause,) if of else (),
            ),
        )
    for id, (by, seen, meaning, fix) in _said().items():
        yield (id,), Entry(id=id, kind=f"said by {by}", title=seen, text=meaning, fix=fix)


def advised(entry: Entry) -> tuple[str, ...]:
    """What a check may advise, by what it sees: the texts of its fixes, as its file has them; values are dots."""
    check = next((check for check in find_checks()[0] if entry.kind.startswith("check") and check.id == entry.id), None)
    if check is None or check.module not in sys.modules:
        return ()
    try:
        tree = ast.parse(inspect.getsource(sys.modules[check.module]))
    except (OSError, SyntaxError, ValueError):  # a plugin without its source
        return ()
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    fixes = (node for node in calls if ast.unparse(node.func) in ("Fix", "Fix.of"))
    return tuple(dict.fromkeys(text for node in fixes for text in _texts(node.args[0]) if text))


def _texts(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)]
        case ast.IfExp(body=one, orelse=other):
            return [*_texts(one), *_texts(other)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [one + other for one in _texts(left) for other in _texts(right)]
    return []


@cache
def entries() -> dict[str, list[Entry]]:
    """By every id, codes of rules and former ids of checks too; a check and a cause may share one."""
    by_id: dict[str, list[Entry]] = {}
    for ids, entry in _each():
        for id in ids:
            by_id.setdefault(id, []).append(entry)
    return by_id | {former: by_id[today] for former, today in FORMER.items()}
