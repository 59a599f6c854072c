"""Ids: the same trouble has the same id in every command, a former one is understood, and none has two meanings.

An id without a dash is of a job, a rank or a form; those that are made of parts end where the part begins.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gpudoctor.causes import CAUSES
from gpudoctor.envelope import FORMER, NOT_SEEN
from gpudoctor.fleet.compare import IDS
from gpudoctor.fleet.fleet import LOST_IDS
from gpudoctor.knowledge.visible.selection import CHECK_IDS, OF_AN_ENTRY
from gpudoctor.launch.verified import NOT_VERIFIED, REFUTED
from gpudoctor.lint.rule import every_rule
from gpudoctor.plugins import broken, find_checks, select
from tests import sources

ROOT = Path(__file__).parent.parent
CHECKS = find_checks()[0]
MAKERS = {"finding", "problem"}
"""Functions whose first argument is the id of what is found."""
ONE_FIX_FOR_TWO = [{"retired-pages-pending", "row-remap-pending"}, {"ecc-mode-pending", "mig-mode-pending"}]
"""Different things that wait for the same reset of a GPU."""


def texts(node: ast.expr | None) -> list[str]:
    return [
        each.value
        for each in (ast.walk(node) if node is not None else ())
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@cache
def told() -> tuple[tuple[str, str], ...]:
    return tuple(_told())


def _told() -> Iterator[tuple[str, str]]:
    """(id, words of its fix) of all that the source finds without a registry; no words where the id is chosen there."""
    for path in sorted((ROOT / "gpudoctor").rglob("*.py")):
        for call in sources.walk(sources.tree(path)):
            if not isinstance(call, ast.Call):
                continue
            named = {each.arg: each.value for each in call.keywords}
            first = call.args[0] if called(call) in MAKERS and call.args else named.get("id")
            fix = named.get("fix") or next((each for each in call.args if "Fix" in ast.dump(each)), None)
            ids = [id for id in texts(first) if "-" in id.strip("-")]
            yield from ((id, "".join(texts(fix)) if len(ids) == 1 else "") for id in ids)


def fixes() -> Iterator[tuple[str, str]]:
    """(id, words of a fix) of everything."""
    yield from told()
    yield from ((cause.id, cause.fix.text) for cause in CAUSES.values())
    for check in CHECKS:
        path = ROOT / "checks" / (check.module.replace(".", "/") + ".py")
        for call in sources.walk(sources.tree(path)) if path.exists() else ():
            if isinstance(call, ast.Call) and called(call) in ("Fix", "of") and call.args:
                yield check.id, "".join(texts(call.args[0]))


def every_id() -> set[str]:
    rules = {name for rule in every_rule() for name in (rule.id, rule.code)}
    tables = {*LOST_IDS.values(), *CHECK_IDS.values(), *REFUTED.values(), *IDS.values(), OF_AN_ENTRY, NOT_VERIFIED}
    return {id for id, _ in told()} | {each.id for each in CHECKS} | {*CAUSES, NOT_SEEN} | rules | tables


def test_a_trouble_has_one_id_in_all_commands() -> None:
    """Two ids whose fix has the same words are one trouble under two names."""
    by_words: dict[str, set[str]] = defaultdict(set)
    for id, words in fixes():
        if len(words) > 20:
            by_words[words].add(id)
    shared = [ids for ids in by_words.values() if len(ids) > 1 and ids not in ONE_FIX_FOR_TWO]
    assert not shared
    assert len(by_words) > 200


def test_a_title_is_of_one_trouble() -> None:
    titles = [*(each.title for each in CHECKS), *(each.title for each in CAUSES.values())]
    titles += [each.title for each in every_rule()]
    lowered = [each.lower() for each in titles]
    assert sorted(set(lowered)) == sorted(lowered)


def test_a_former_id_is_never_used_again_and_leads_to_one_that_is() -> None:
    ids = every_id()
    assert not FORMER.keys() & ids
    assert {*FORMER.values()} <= ids
    for check in CHECKS:
        assert not {*check.aliases} & ids, check.id


def test_a_former_id_chooses_its_check() -> None:
    ids = {check.id for check in CHECKS}
    for former, today in FORMER.items():
        if today in ids:
            assert [check.id for check in select(CHECKS, [former])] == [today]


def test_what_tables_name_is_what_a_command_finds() -> None:
    """What `launch --check` and `check --hosts` call a trouble is a check's, a cause's or nccl-test's word for it."""
    known = {id for id, _ in told()} | {each.id for each in CHECKS} | {*CAUSES}
    assert {*IDS.values()} <= known
    assert {*REFUTED.values()} - {"script-missing-on-node"} <= known
    assert {*CHECK_IDS.values()} <= {each.id for each in CHECKS}


def test_nothing_of_our_own_is_shadowed() -> None:
    """Of two rules, checks or causes with one id the second would never be asked."""
    every_rule()
    assert CHECKS and CAUSES
    assert not broken()
