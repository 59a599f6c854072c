"""What `check` offers of a snapshot that somebody else wrote: no check crashes, and no value is more than its word."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path as File
from zlib import crc32

import pytest

from gpudoctor.diagnose import ask
from gpudoctor.plugins import find_checks
from gpudoctor.render.terminal import plain
from gpudoctor.report import Result
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json, to_json
from tests.attacks.lines import is_ours
from tests.attacks.mutations import HOSTILE, Path, mutated, texts
from tests.attacks.registry import attack, attacks
from tests.every_case import every_case
from tests.machines.reports import judged, machines

BY_ID = {check.id: check for check in find_checks()[0]}
CASES = [(BY_ID[check], case) for check, cases in every_case().items() for case in cases if case.speaks]
SHELL = shutil.which("dash") or "/bin/sh"
ACTS = re.compile(r"\b(?:kill|exec|reboot)\b|[<>]")
"""In a line of ours: it would do something even where no program is found."""
NAMED = {
    "nccl-settings-differ-between-ranks": "a rank's NCCL setting",
    "master-addr-loopback": "an address of this host",
    "master-addr-elsewhere": "an address of this host",
    "torch-mixed-versions": "a package and its version",
    "train-ddp-failed": "the way of a training test",
    "train-ddp-hung": "the way of a training test",
    "amp-wrong-result": "a device and its precision",
    "acs-redirects-peer-traffic": "a PCI bridge",
}
"""Checks whose lines once took what a forged snapshot said -> what stands in them."""
BEYOND = {
    "digits that are no numbers": "²³",
    "a number that no machine has": "9" * 200,
    "what a format would fill": "%s{}{0.__class__}",
    "half of a range": "[0-",
    "colons where an address is wanted": "::.:",
}
"""More that a parser of names may fall over."""
EVERY = {**HOSTILE, **BEYOND}


def lines_of(results: Iterable[Result]) -> list[str]:
    return [line for result in results for problem in result.problems for line in problem.fix.commands]


def accepted(machine: Snapshot) -> Snapshot | None:
    """The snapshot as a file of it is read; None where that is refused, which takes one line."""
    try:
        return from_json(to_json(machine))
    except UnicodeEncodeError:  # half of a character: a file holds it as an escape only, which no decoder takes
        return None
    except UnreadableSnapshot as error:
        assert str(error).isprintable() and len(str(error)) < 400
        return None


# ---------------------------------------------------------------- whole machines

Spot = tuple[str, str]
"""A machine and one of its texts."""


@cache
def known() -> tuple[dict[str, Snapshot], dict[str, dict[str, list[Path]]]]:
    every = machines()
    return every, {name: texts(machine) for name, machine in every.items()}


@cache
def spots() -> dict[str, Spot]:
    """Every field that holds a text in some machine -> one text of it, another one for each field."""
    found: dict[str, list[Spot]] = {}
    for name, where in known()[1].items():
        for text, places in where.items():
            for place in places:
                found.setdefault(field(place), []).append((name, text))
    return {place: each[crc32(place.encode()) % len(each)] for place, each in found.items()}


def field(place: Path) -> str:
    return ".".join("*" if isinstance(step, int) else str(step) for step in place)


@attack("text", way="check --from: every text of a snapshot", weakness="the terminal obeys it")
@attack(
    "files", way="check --from: every text of a snapshot", weakness="a check crashes on it, and its finding is gone"
)
@pytest.mark.parametrize("weakness", EVERY)
def test_every_text_of_every_machine_may_be_hostile(weakness: str) -> None:
    """Each field is attacked once, by one of the weaknesses; all of them meet every check."""
    number, (every, where), tried = list(EVERY).index(weakness), known(), 0
    for place, (name, old) in spots().items():
        if crc32(place.encode()) % len(EVERY) != number:
            continue
        tried += 1
        machine = accepted(mutated(every[name], where[name], old, EVERY[weakness][:5000]))
        if machine is None:
            continue
        report = judged(machine)
        crashed = [(result.check, result.reasons) for result in report.results if result.outcome == "crashed"]
        assert not crashed, (place, old)
        for line in lines_of(report.results):
            assert is_ours(line), (place, old, line)
        assert all(letter.isprintable() or letter == "\n" for letter in plain(report, machine)), (place, old)
    assert tried > 3 and len(spots()) > 400


# ---------------------------------------------------------------- what stands in the lines


@cache
def told(number: int) -> tuple[dict[str, list[Path]], tuple[str, ...]]:
    """Of a case: where its texts stand, and those that its lines hold."""
    check, case = CASES[number]
    where, lines = texts(case.machine), " ".join(lines_of([ask(check, case.machine)]))
    return where, tuple(sorted(text for text in where if len(text) < 300 and text and text in lines))


def results(number: int, old: str, weakness: str) -> Iterator[tuple[bool, Result]]:
    """What the case's check says of the mutated machine: as a file gives it, and as a reader of ours would."""
    (check, case), (where, _) = CASES[number], told(number)
    machine = mutated(case.machine, where, old, EVERY[weakness][:5000])
    again = accepted(machine)
    yield False, ask(check, machine)
    if again is not None:
        yield True, ask(check, again)


def hold(number: int, old: str, weakness: str) -> int:
    """How many lines there were, all of them ours."""
    seen = 0
    for is_from_file, result in results(number, old, weakness):
        assert not is_from_file or result.outcome != "crashed", (result.check, old, result.reasons)
        for line in lines_of([result]):
            seen += 1
            assert is_ours(line), (result.check, old, line)
    return seen


@attacks(
    "text",
    "weakness",
    *(("check --from: a text that stands in a line to paste", weakness, weakness) for weakness in HOSTILE),
)
def test_no_line_of_any_check_gains_anything(weakness: str) -> None:
    """Every text that any check's line holds; each is tried with every sixth weakness."""
    number, tried, lines = list(HOSTILE).index(weakness), 0, 0
    for case in range(len(CASES)):
        for turn, old in enumerate(told(case)[1]):
            if (case + turn + number) % 6 == 0:
                tried += 1
                lines += hold(case, old, weakness)
    assert tried > 50
    assert lines > 10


@attacks(
    "text",
    "check",
    *(
        (f"check --from: {what} in the line of {check}", "the line gains a command", check)
        for check, what in NAMED.items()
    ),
)
def test_the_lines_that_once_were_the_attackers(check: str) -> None:
    """Each with every weakness, in every text of its machine that can get near its lines."""
    cases = [number for number, (asked, _) in enumerate(CASES) if asked.id == check]
    before = {line for number in cases for line in lines_of([ask(BY_ID[check], CASES[number][1].machine)])}
    assert before and all(map(is_ours, before))
    for number in cases[:2]:
        for old in told(number)[1]:
            for weakness in EVERY:
                hold(number, old, weakness)


@attack("files", way="check --from: a PCI bridge that is none", weakness="a check crashes, and its finding is gone")
def test_a_bridge_that_is_none_is_refused_before_any_check() -> None:
    case = next(case for check, case in CASES if check.id == "acs-redirects-peer-traffic")
    assert accepted(case.machine) is not None
    (redirecting, *_) = (bridge.bus_id for bridge in case.machine.host.acs_bridges.value if bridge.redirects)
    forged = mutated(case.machine, texts(case.machine), redirecting, "zz:00.0")
    with pytest.raises(UnreadableSnapshot, match=r"\[\d\]\.bus_id is no PCI address: 'zz:00\.0'$"):
        from_json(to_json(forged))


# ---------------------------------------------------------------- real shells


@attack("text", way="check --from: every text of every case at once", weakness="a shell runs what a value says")
def test_a_real_shell_runs_nothing_of_a_value(tmp_path: File) -> None:
    """Each line that holds a hostile word and writes nothing of its own, run where no program is found."""
    hostile = "x;>canary;$(>canary)`>canary`&&>canary|>canary '>canary' \">canary\" "
    lines: set[str] = set()
    for number, (check, case) in enumerate(CASES):
        if any(ACTS.search(line) for line in lines_of([ask(check, case.machine)])):
            continue
        for old in told(number)[1]:
            machine = mutated(case.machine, told(number)[0], old, hostile)
            lines |= {line for line in lines_of([ask(check, machine)]) if ">canary" in line}
    assert len(lines) > 3
    program = "".join(f"( {line} )\n" for line in sorted(lines))
    assert subprocess.run([SHELL, "-n", "-c", program], timeout=60, check=False).returncode == 0
    subprocess.run([SHELL, "-c", program], cwd=tmp_path, env={"PATH": ""}, capture_output=True, timeout=60, check=False)
    assert not list(tmp_path.iterdir())
    subprocess.run([SHELL, "-c", hostile], cwd=tmp_path, env={"PATH": ""}, capture_output=True, timeout=60, check=False)
    assert list(tmp_path.iterdir()), "the word itself would leave something"
