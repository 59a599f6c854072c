"""The answer of `gpudoctor hang` -> terminal: the cause, then every rank, alike ones in one line, the verdict last."""

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gpudoctor.hang.report import HangCause, HangReport, JobReport, OtherJob, ProgramLine, RankRow, is_unseen
from gpudoctor.knowledge.wording import counted, ranges
from gpudoctor.lazy import lazy_re
from gpudoctor.render.prose import show, show_page, show_table
from gpudoctor.render.terminal import BRIEF, REASONS, show_fix, show_next
from gpudoctor.render.words import first_clause, headline, safe
from gpudoctor.sure import CERTAIN, LIKELY

STATE_COLORS = {
    "hung": "bold red",
    "slow": "bold yellow",
    "starting": "bold yellow",
    "running": "bold green",
    "ended": "bold magenta",
}
STATES = {
    "hung": "it hangs",
    "slow": "it gets on, slowly",
    "running": "it gets on",
    "starting": "it is starting",
    "ended": "it has ended",
}
MOST_EVIDENCE = 8
MOST_ALTERNATIVES = 4
MOST_ROWS = 40
MOST_UNREAD = 8
MOST_NAMES = 4
MOST_CONTAINERS = 8
LONGEST_NUMBERS = 60


def show_hang(report: HangReport, screen: Console, verbosity: int = REASONS) -> None:
    """All jobs of the report, what could not be seen, and a verdict a job."""

    def draw() -> None:
        for number, job in enumerate(report.jobs):
            if number:
                screen.print()
            if len(report.jobs) > 1:
                show(f"{name_of(job, report)}:", screen, style="bold")
            _show_job(job, screen, verbosity)
        _show_others(report.others, screen)
        _show_blind(report, screen)

    show_page(screen, draw, lambda: _show_verdicts(report, screen))


def name_of(job: JobReport, report: HangReport) -> str:
    """Its id, whose it is where jobs of several users are there, its world size."""
    several = len({job.user for job in report.jobs} | {other.user for other in report.others}) > 1
    of = f" of {job.user}" if several and job.user else ""
    return f"{job.id}{of}{f', world size {job.world_size}' if job.world_size else ''}"


def verdict_of(job: JobReport, report: HangReport) -> str:
    """How it stands with a job, in a line."""
    cause = ""
    if job.undecided:
        cause = "; its cause is not decided" if job.state == "hung" else ""
    elif job.causes:
        sure = job.causes[0].confidence
        cause = "; a cause is likely" if sure >= LIKELY else "; what fits best is told"
        cause = f" [{job.causes[0].cause}]" if sure >= CERTAIN else cause
    state = "whether it gets on is not known" if is_unseen(job) else STATES[job.state]
    return f"{name_of(job, report)}: {state}{cause}"


def verdict_without_jobs(report: HangReport) -> str:
    """The verdict where there is no job."""
    return "No job is left to look at: it has ended" if report.ended else "No job could be looked at"


def _show_verdicts(report: HangReport, screen: Console) -> None:
    for job in report.jobs:
        show(verdict_of(job, report), screen, style="bold magenta" if is_unseen(job) else STATE_COLORS[job.state])
    if not report.jobs:
        show(verdict_without_jobs(report), screen, style="bold magenta")


def _show_others(others: Sequence[OtherJob], screen: Console) -> None:
    if not others:
        return
    screen.print()
    show("Not looked at:", screen, style="bold")
    for other in sorted(others, key=lambda other: not other.claims)[:MOST_ALTERNATIVES]:
        whose = f" of {other.user}" if other.user else ""
        claim = f"; it names the master or Slurm job of {other.claims} as its own, and is no part of it"
        ranks = counted(other.ranks, "rank")
        show(f"{other.id}{whose}, pid {other.pid}, {ranks}{claim if other.claims else ''}", screen, indent=2)
    if len(others) > MOST_ALTERNATIVES:
        show(f"and {len(others) - MOST_ALTERNATIVES} more (--json lists them)", screen, indent=2, style="dim")
    show("`--user NAME` or `--pid P` looks at one of these.", screen, indent=2, style="dim")


def _show_job(job: JobReport, screen: Console, verbosity: int) -> None:
    if job.causes and not job.undecided:
        _show_cause(job.causes[0], screen, verbosity)
    if job.undecided:
        show(f"Undecided: {job.undecided}", screen, style="bold", head="bold magenta")
    others = job.causes if job.undecided else job.causes[1:]
    if others:
        if verbosity > BRIEF:
            screen.print()
        show("Candidates:" if job.undecided else "Also possible, or besides:", screen, style="bold")
        for cause in others[:MOST_ALTERNATIVES]:
            tag = f"  [{cause.cause}]"
            said = cause.summary if verbosity > BRIEF else headline(cause.summary, screen.width - len(tag) - 7)
            show(f"{cause.confidence:.2f} {said}{tag}", screen, indent=2)
            if cause.confirm and verbosity > BRIEF:
                show(f"To confirm: {cause.confirm}", screen, indent=4, style="dim")
        if len(others) > MOST_ALTERNATIVES:
            show(f"and {len(others) - MOST_ALTERNATIVES} more (--json lists them)", screen, indent=2, style="dim")
    if job.ranks:
        screen.print()
        _show_ranks(job.ranks, screen)
    if job.only_recorder:
        screen.print()
        brief = f"{first_clause(job.only_recorder)}."
        show(job.only_recorder if verbosity > BRIEF else brief, screen, style="dim")


def _show_cause(cause: HangCause, screen: Console, verbosity: int) -> None:
    if verbosity == BRIEF:
        show(f"cause {cause.summary}", screen, style="bold", head="bold red")
        show_next(f"[{cause.cause}]", cause.fix, screen)
    else:
        _show_reasons(cause, screen)
    if cause.confidence < CERTAIN:
        test = f". To confirm: {cause.confirm}" if cause.confirm else ""
        show(f"How sure: {cause.confidence:.2f} of 1{test}", screen, indent=2)


def _show_reasons(cause: HangCause, screen: Console) -> None:
    show(f"cause {cause.summary}  [{cause.cause}]", screen, style="bold", head="bold red")
    show(cause.meaning, screen, indent=2)
    show_fix(cause.fix, screen)
    if cause.where is not None:
        show(f"Where: {place(cause.where)}", screen, indent=2)
    for seen in cause.evidence[:MOST_EVIDENCE]:
        show(f"Seen: {seen.source}: {seen.text}", screen, indent=2, style="dim")
    if len(cause.evidence) > MOST_EVIDENCE:
        show(f"and {len(cause.evidence) - MOST_EVIDENCE} more (--json lists them)", screen, indent=2, style="dim")


def place(where: ProgramLine, *, short: bool = False) -> str:
    """ "/home/mara/train.py:41 in main"; short: "train.py:41"."""
    file = where.file.rpartition("/")[2] if short else where.file
    line = f"{file}:{where.line}" if where.line else file
    return line if short or not where.function else f"{line} in {where.function}"


class Folded:
    """Ranks that agree in all but their number, host and pid."""

    def __init__(self, first: RankRow) -> None:
        self.first = first
        self.ranks: list[int] = []
        self.hosts: dict[str, None] = {}
        self.count = 0

    def add(self, row: RankRow) -> None:
        self.ranks.append(row.rank)
        self.hosts.setdefault(row.host)
        self.count += 1

    def cells(self) -> tuple[str, ...]:
        hosts = [host for host in self.hosts if host]
        host = hosts[0] if len(hosts) == 1 else counted(len(hosts), "host") if hosts else "-"
        pid = (str(self.first.pid) if self.first.pid else "-") if self.count == 1 else f"{self.count} pids"
        where = place(self.first.frame, short=True) if self.first.frame is not None else "-"
        if self.first.frame is not None and self.first.frame.function not in ("", "<module>"):
            where += f" {self.first.frame.function}"
        named = [rank for rank in self.ranks if rank >= 0]
        ranks = ranges(named) if len(set(named)) == len(named) else ",".join(map(str, sorted(named)))
        return ranks or "?", host, pid, self.first.state, self.first.collective or "-", where


def folded(rows: Sequence[RankRow]) -> list[Folded]:
    """Rows that say the same, together; the smallest party first, for it is where the culprit is."""
    parties: dict[tuple[object, ...], Folded] = {}
    for row in rows:
        alone = () if row.pid or row.state == "missing" else (row.rank,)
        line = (row.frame.file, row.frame.line, row.frame.function) if row.frame is not None else None
        key = (row.state, row.collective, line, *alone)
        parties.setdefault(key, Folded(row)).add(row)
    return sorted(parties.values(), key=lambda party: (party.count, min(party.ranks)))


def _show_ranks(rows: Sequence[RankRow], screen: Console) -> None:
    parties = folded(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("Rank", "Host", "PID", "State", "Collective", "Where"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for party in parties[:MOST_ROWS]:
        table.add_row(*map(safe, party.cells()))
    show_table(table, screen, gives_way="Collective")
    if len(parties) > MOST_ROWS:
        show(f"and {counted(len(parties) - MOST_ROWS, 'more line')} (--json lists all ranks)", screen, style="dim")
    contained: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row.container:
            contained.setdefault((row.container, row.host), []).append(row.rank)
    for (name, host), ranks in list(contained.items())[:MOST_CONTAINERS]:
        number = f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
        show(f"{number} in container {safe(name)} on {safe(host)}", screen, style="dim")
    if len(contained) > MOST_CONTAINERS:
        show(f"and {counted(len(contained) - MOST_CONTAINERS, 'more container')}", screen, style="dim")


def _show_blind(report: HangReport, screen: Console) -> None:
    """Nodes and things that could not be looked at, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.lost.items():
        by_reason.setdefault(reason, []).append(f"node {name}")
    for unread in report.unread:
        by_reason.setdefault(unread.reason, []).append(unread.what)
    if not by_reason:
        return
    screen.print()
    show("Could not look:", screen, style="bold magenta")
    for reason, names in list(by_reason.items())[:MOST_UNREAD]:
        show(f"{what_was_not_read(names)}: {reason}", screen, indent=2)
    if len(by_reason) > MOST_UNREAD:
        show(f"and {len(by_reason) - MOST_UNREAD} more reasons (--json lists them)", screen, indent=2, style="dim")


_NUMBERED = lazy_re(r"(.*?\b(?:pid|rank)) ([0-9]{1,10})\b.*", re.DOTALL)


def what_was_not_read(names: Sequence[str]) -> str:
    """ "environment of pids 7-9, node b": what differs in a number only is told once."""
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for name in dict.fromkeys(names):
        numbered = _NUMBERED.fullmatch(name)
        by_kind.setdefault(numbered[1] if numbered else name, []).append((int(numbered[2]) if numbered else 0, name))
    parts = []
    for what, unread in list(by_kind.items())[:MOST_NAMES]:
        numbers = ranges([number for number, _ in unread])
        several = f"{what}s {numbers}" if len(numbers) < LONGEST_NUMBERS else f"{what}: {len(unread)} of them"
        parts.append(unread[0][1] if len(unread) == 1 else several)
    return ", ".join(parts) + (f" and {len(by_kind) - MOST_NAMES} more" if len(by_kind) > MOST_NAMES else "")
