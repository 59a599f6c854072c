"""The answer of `gpudoctor diff`: what differs in words, what the checks find in one capture only, and a verdict."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor.check import Check, Problem
from gpudoctor.compare.changes import ToldSpot, compared, folded, unread_gpus
from gpudoctor.compare.leaves import Spot
from gpudoctor.compare.pairing import Kinship, Pairing, paired
from gpudoctor.deciding import HERE
from gpudoctor.diagnose import diagnose
from gpudoctor.envelope import Answer, Stated
from gpudoctor.knowledge.wording import listed
from gpudoctor.report import Report
from gpudoctor.severity import WORST_FIRST
from gpudoctor.snapshot import Change, Missing, Snapshot

DiffVerdict = Literal["the same", "not worse", "worse", "cannot tell"]
"""the same:    nothing that counts differs.
not worse:   what differs is better, or neither better nor worse.
worse:       the second capture is worse in something: an error or a warning.
cannot tell: what decides is in one of them only, or one is cut.
"""
SECTIONS = {
    "nvidia": "GPUs",
    "cuda": "the CUDA driver",
    "accelerators": "PCI devices",
    "environment": "the environment",
    "host": "host",
    "network": "network",
    "training": "torch",
}
RESTED_ON = ("worse", "better", "downgrade", "gone", "new", "unread")
BLIND = ("skipped", "crashed", "not-run")


class DiffSide(Struct, frozen=True):
    """One of the two captures."""

    name: str
    """As it was given."""
    machine: str
    """In one line."""
    taken_at: str = ""


class DiffReport(Answer, frozen=True, kw_only=True):
    """What `gpudoctor diff` says."""

    command: ClassVar[str] = "diff"
    signs: ClassVar[tuple[str, ...]] = ("before", "after")
    before: DiffSide
    after: DiffSide
    kinship: Kinship
    """Whether they are one machine."""
    verdict: DiffVerdict = field(name="compared")
    """`compared` in JSON."""
    changes: tuple[Change, ...]
    """Most telling first."""
    unseen: tuple[str, ...] = ()
    """What one of them does not tell, in words."""
    lacking: tuple[str, ...] = ()
    """Why it cannot be told."""

    @property
    def exit_status(self) -> int:
        return {"worse": 1, "cannot tell": 3}.get(self.verdict, 0)

    def about(self) -> str:
        return f"{self.before.machine}; {self.after.machine}"

    def stated(self) -> Iterator[Stated]:
        for change in self.changes:
            yield Stated(
                id=next(iter(change.checks), f"changed-{change.kind}"),
                severity=change.severity,
                subject=change.subject or None,
                summary=change.summary,
            )


def diff(before: Snapshot, after: Snapshot, sides: tuple[DiffSide, DiffSide], checks: Sequence[Check]) -> DiffReport:
    """Two captures compared; `checks`: whose findings count."""
    pairing = paired(before, after)
    comparison = compared(before, after, pairing)
    reports = diagnose(before, checks), diagnose(after, checks)
    silent = list(unread_gpus(comparison.unread))
    spots = [*silent, *(spot for spot in comparison.told if not _is_cut_away(spot, (before, after), reports))]
    spots, findings, only = _with_findings(spots, reports, pairing)
    changes = (*folded(spots), *findings)
    changes = tuple(
        sorted(changes, key=lambda change: (WORST_FIRST[change.severity], change.kind in ("better", "new", "mended")))
    )
    names = sides[0].name, sides[1].name
    lacking = tuple(_lacking(before, after, reports, names))
    worse = any(change.severity != "info" for change in changes)
    verdict: DiffVerdict = "worse" if worse else "cannot tell" if lacking else "not worse" if changes else "the same"
    hidden = ("names, UUIDs and addresses: one of the two is redacted",) if comparison.private else ()
    return DiffReport(
        before=sides[0],
        after=sides[1],
        kinship=pairing.kinship,
        verdict=verdict,
        changes=changes,
        unseen=(*hidden, *_unseen((spot for spot in comparison.unread if not _is_of(spot, silent)), names), *only),
        lacking=lacking,
    )


def _is_cut_away(spot: ToldSpot, machines: tuple[Snapshot, Snapshot], reports: tuple[Report, Report]) -> bool:
    """Whether what is not there is not there in a part of a file."""
    side = {"gone": 1, "new": 0}.get(spot.change.kind)
    return side is not None and machines[side].origin != HERE and bool(reports[side].sight.lacking)


def _is_of(spot: Spot, silent: Iterable[ToldSpot]) -> bool:
    """Whether it belongs to a GPU that is told to be silent."""
    return any(spot.items[:1] == each.items[:1] for each in silent)


def _unseen(unread: Iterable[Spot], names: tuple[str, str]) -> Iterator[str]:
    """ "torch and network are in A only (B: not in this output)"."""
    groups: dict[tuple[int, str], list[str]] = {}
    for spot in unread:
        is_later = isinstance(spot.after, Missing)
        why = spot.after if is_later else spot.before
        part = SECTIONS.get(spot.place.partition(".")[0].removesuffix("{}"))
        if part is not None and why.kind != "not-asked":
            groups.setdefault((int(is_later), why.reason), []).append(part)
    for (blind, reason), parts in groups.items():
        every = list(dict.fromkeys(parts))
        number = f" ({len(parts)} facts)" if len(parts) > len(every) else ""
        yield f"of {listed(every)}{number}, {names[blind]} does not tell: {reason}"


def _lacking(
    before: Snapshot, after: Snapshot, reports: tuple[Report, Report], names: tuple[str, str]
) -> Iterator[str]:
    for machine, report, name in zip((before, after), reports, names, strict=True):
        if machine.origin != HERE:
            yield from (f"{name}: {each}" for each in report.sight.lacking)
    parts = [report.sight.seen for report in reports]
    if not set(parts[0]) & set(parts[1]):
        held = [listed(part) or "nothing" for part in parts]
        yield f"they have nothing in common: {names[0]} holds {held[0]}, {names[1]} {held[1]}"
        return
    sights = [
        snapshot.nvidia.gpus.is_read or snapshot.nvidia.gpus.missing_kind == "absent" for snapshot in (before, after)
    ]
    if sights[0] != sights[1]:
        gpus = (before if sights[1] else after).nvidia.gpus
        yield f"the GPUs are not in {names[int(sights[0])]} ({gpus.source}: {gpus.reason})"


def _with_findings(
    told_spots: Sequence[ToldSpot], reports: tuple[Report, Report], pairing: Pairing
) -> tuple[list[ToldSpot], list[Change], list[str]]:
    """What changed, with the findings that rest on it; other findings of one side; those that one alone could see."""
    spots, more, only = list(told_spots), [], []
    known, blind = _known(reports[0], pairing.before)
    now, unable = _known(reports[1], pairing.after)
    for result, problem in reports[1].problems:
        key = (result.check, _numbers(problem, pairing.after))
        if key in known:
            continue
        if result.check in blind:
            only.append(f"the first could not look for it: {problem.severity} {problem.summary} [{result.check}]")
            continue
        places = [number for number, spot in enumerate(spots) if _rests_on(problem, spot)]
        for number in places:
            change = spots[number].change
            severity = min(change.severity, problem.severity, key=WORST_FIRST.__getitem__)
            checks = tuple(dict.fromkeys((*change.checks, result.check)))
            spots[number] = spots[number]._replace(change=replace(change, severity=severity, checks=checks))
        if not places:
            more.append(
                Change(problem.severity, "finding", "", problem.summary, gpus=problem.gpus, checks=(result.check,))
            )
    for result, problem in reports[0].problems:
        key = (result.check, _numbers(problem, pairing.before))
        is_told = any(_rests_on(problem, spot, 0) for spot in spots)
        if key not in now and result.check not in unable and problem.severity != "info" and not is_told:
            more.append(Change("info", "mended", "", problem.summary, gpus=problem.gpus, checks=(result.check,)))
    return spots, more, only


def _known(report: Report, numbers: dict[int, int]) -> tuple[set[tuple[str, tuple[int, ...]]], set[str]]:
    """What a report finds, by check and pair of GPUs; and the checks that could not look."""
    found = {(result.check, _numbers(problem, numbers)) for result, problem in report.problems}
    return found, {result.check for result in report.results if result.outcome in BLIND}


def _numbers(problem: Problem, numbers: dict[int, int]) -> tuple[int, ...]:
    return tuple(sorted(numbers.get(index, index) for index in problem.gpus))


def _rests_on(problem: Problem, spot: ToldSpot, side: int = 1) -> bool:
    reading = spot.readings[side]
    return (
        reading is not None
        and spot.change.kind in RESTED_ON
        and not spot.place.startswith("training.torch.")  # one reading of many things
        and reading in problem.evidence
        and (not spot.change.gpus or not problem.gpus or bool(set(spot.change.gpus) & set(problem.gpus)))
    )
