"""A bandwidth test on a terminal: who has answered, rows as they are measured, then the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from gpudoctor.culprits import OneTrouble
from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import Hello, Launch
from gpudoctor.knowledge.wording import counted
from gpudoctor.nccl.compare_settings import words
from gpudoctor.nccl.rank_messages import Member, Row, Skipped
from gpudoctor.nccl.result import Compared, Culprit, Grade, Isolation, IsolationRound, TestResult
from gpudoctor.nccl.show import Show
from gpudoctor.render.prose import show
from gpudoctor.render.terminal import BRIEF, REASONS, show_briefly, show_problem
from gpudoctor.render.words import safe

FACTORS = {
    "all_reduce": "2(n-1)/n",
    "all_gather": "(n-1)/n",
    "reduce_scatter": "(n-1)/n",
    "all_to_all": "(n-1)/n",
    "broadcast": "1",
    "send_recv": "1",
}
NAMES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}
"""As nccl-tests calls them."""
COLORS = {
    "healthy": "bold green",
    "degraded": "bold yellow",
    "broken": "bold red",
    "misconfigured": "bold red",
    "not graded": "bold",
}
WORST_FIRST = ("broken", "misconfigured", "degraded")
HEADER = (
    f"#{'size':>10}{'count':>11}{'type':>9}{'time':>9}{'algbw':>8}{'busbw':>7}{'#wrong':>7}{'min':>9}{'mean':>9}\n"
    f"#{'(B)':>10}{'(elements)':>11}{'':>9}{'(us)':>9}{'(GB/s)':>8}{'(GB/s)':>7}{'':>7}{'(us)':>9}{'(us)':>9}"
)
NODES_NAMED = 8
SMALL = 1024**2
"""Every size costs at least what this one does, for the time that is left."""


ALIKE = 0.85
"""Of the best: healthy links differ by so much from run to run (gpudoctor.nccl.isolate_judge)."""
FOLDED = 3
"""Fewer groups stand for themselves."""


def folded(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    shown = ", ".join(names[:NODES_NAMED])
    return shown + (f" and {len(names) - NODES_NAMED} more" if len(names) > NODES_NAMED else "")


def row_line(row: Row) -> str:
    """One row in nccl-tests' columns. `time` is the slowest rank's."""
    wrong = "N/A" if row.wrong is None else str(row.wrong)
    return (
        f"{row.size_bytes:>11}{row.count:>11}{NAMES.get(row.dtype, row.dtype):>9}{_time(row.maximum_us):>9}"
        f"{bandwidth(row.algorithm_bandwidth):>8}{bandwidth(row.bus_bandwidth):>7}{wrong:>7}"
        f"{_time(row.minimum_us):>9}{_time(row.mean_us):>9}"
    )


def bandwidth(value: float) -> str:
    """ "12.34"; of a slow one, as gloo over a container's network, as many digits as tell something: "0.0042". Of one
    rank alone, which moves nothing, it is any number: "14877"."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}" if value >= 0.0001 else f"{value:.0e}"


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 1e5 else f"{microseconds:.0f}"


class _HowLong(ProgressColumn):
    """ "12 s", and "12 s, about 40 s more" as soon as that can be told."""

    def render(self, task: Task) -> Text:
        more = f", about {task.time_remaining:.0f} s more" if task.time_remaining else ""
        return Text(f"{task.elapsed or 0.0:.0f} s{more}")


class Live(Show):
    """Shows a test while it runs: rows on `screen`, what is awaited on standard error where that is a terminal."""

    def __init__(self, screen: Console, errors: TextIO, *, rows: bool = True) -> None:
        self._screen = screen
        self._errors = errors
        self._rows = rows
        self._collective = ""
        self._header: list[str] = []
        self._factor_of: dict[str, int] = {}
        # Rows and bar on one terminal must share a console, or they overwrite each other.
        together = rows and screen.is_terminal
        console = screen if together else Console(file=errors, highlight=False, emoji=False, markup=False)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if errors.isatty():
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                _HowLong(),
                console=console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def _status(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        if self._progress is None:
            return
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=None)
        self._progress.update(self._task, description=safe(text), completed=done, total=total)

    def reaching(self, fleet: Fleet, answers: Mapping[int, Hello | Lost]) -> None:
        there = [fleet.name(node) for node, what in answers.items() if isinstance(what, Hello)]
        self._status(f"{len(there)}/{counted(len(fleet.nodes), 'node')}: {folded(there)}")

    def paste(self, line: str) -> None:
        """The line to paste on every other node, which is not part of the answer."""
        print(f"Paste on every other node:\n    {line}", file=self._errors, flush=True)

    def step(self, text: str) -> None:
        self._status(text)

    def joined(self, text: str) -> None:
        """Also where no terminal shows a status: a log then tells for whom the test still waits."""
        if self._progress is None:
            self.notice(text)
        else:
            self._status(text)

    def notice(self, text: str) -> None:
        """What the user should know at once, and is not part of the answer. For any thread."""
        if self._progress is not None and self._task is not None:
            self._progress.console.print(safe(f"gpudoctor: {text}"), soft_wrap=True)
        else:
            print(safe(f"gpudoctor: {text}"), file=self._errors, flush=True)

    def about(self, result: TestResult) -> None:
        for line in started_lines(result):
            self._line(f"# {line}")

    def started(self, launch: Launch) -> None:
        self._work = {(m.collective, m.size_bytes): float(max(m.size_bytes, SMALL)) for m in launch.measurements}
        self._done = 0.0
        self._status("starting the ranks")

    def member(self, member: Member) -> None:
        if member.rank == 0:
            self._line(f"# {world_line(member)}")

    def phase(self, text: str) -> None:
        self._status(text)

    def row(self, row: Row) -> None:
        self._begin(row.collective)
        self._line(row_line(row))
        self._advance(row.collective)

    def skipped(self, skipped: Skipped) -> None:
        self._begin(skipped.collective)
        self._line(skipped_line(skipped))
        self._advance(skipped.collective)

    def isolation_round(self, done: IsolationRound) -> None:
        for line in round_lines(done):
            self._line(line)

    def setting(self, done: Compared) -> None:
        reached = ", ".join(f"{name} {value:.3g} GB/s" for name, value in done.bus_bandwidth.items()) or done.outcome
        self._line(f"# {words(done.settings)}: {reached}")

    def close(self) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.stop()
            self._task = None
            self._progress = None

    def _begin(self, collective: str) -> None:
        if collective != self._collective:
            self._collective = collective
            for line in collective_lines(collective):
                self._line(line)

    def _advance(self, collective: str) -> None:
        """Move the bar on by one size; rows come in the order of the plan."""
        for (name, size), work in list(self._work.items()):
            if name == collective:
                self._done += work
                del self._work[name, size]
                break
        self._status(f"{collective}", done=self._done, total=self._done + sum(self._work.values()))

    def _line(self, text: str) -> None:
        if not self._rows:
            return
        if self._progress is not None and self._task is not None and self._screen.is_terminal:
            self._screen.print(safe(text), soft_wrap=True)
        else:
            print(safe(text), file=self._screen.file, flush=True)


def started_lines(about: TestResult) -> list[str]:
    """What is being run: nodes, ranks, backend, rendezvous, settings."""
    several = len(about.nodes) > 1
    first, each = about.ranks_per_node[0], set(about.ranks_per_node)
    ranks = counted(sum(about.ranks_per_node), "rank") if len(each) > 1 else counted(first, "rank")
    backend = "gloo over CPU, not NCCL" if about.backend == "gloo" else about.backend.upper()
    lines = [
        f"{counted(len(about.nodes), 'node')} ({folded(about.nodes)}), {ranks}"
        + (" each" if several and len(each) == 1 else " in all" if len(each) > 1 else ""),
        f"{backend}: {about.why_backend}" if about.why_backend else backend,
        f"reached by {about.reached_by}; rendezvous at {about.rendezvous}" if several else "",
        "set for every rank: " + words(about.settings) if about.settings else "",
    ]
    return [line for line in lines if line]


def world_line(member: Member) -> str:
    """The world as its rank 0 sees it."""
    versions = [f"torch {member.torch}"]
    versions += [f"CUDA {member.cuda}"] if member.cuda else []
    versions += [f"NCCL {member.nccl}"] if member.nccl else []
    return f"world size {member.world_size} as the ranks see it; {', '.join(versions)}; {member.device}"


def collective_lines(collective: str) -> list[str]:
    return [
        f"# {collective}, in place; busbw = algbw x {FACTORS.get(collective, '1')}; time: slowest rank; GB = 1e9 B",
        *HEADER.splitlines(),
    ]


def round_lines(done: IsolationRound) -> list[str]:
    """A round of --find-slow: its purpose, and a line a group; groups that are alike share one, --json has each."""
    lines = [f"# {done.purpose}"]
    groups = list(zip(done.groups, done.bus_bandwidth, strict=True))
    best = max((value for _, value in groups if value is not None), default=0.0)
    alike = [value for _, value in groups if value is not None and value >= ALIKE * best]
    if len(alike) >= FOLDED:
        span = " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(alike), max(alike))))
        lines.append(f"  {len(alike)} of {len(groups)}: {span} GB/s")
        groups = [(group, value) for group, value in groups if value is None or value < ALIKE * best]
    for group, value in groups:
        measured = "no result: it hung or died" if value is None else f"{value:.3g} GB/s"
        lines.append(f"  {' - '.join(group)}: {measured}")
    return lines


def show_run(result: TestResult, screen: Console) -> None:
    """What `Live` shows while it happens, of a test that is over."""
    if result.ranks_per_node:
        for line in started_lines(result):
            screen.print(safe(f"# {line}"), soft_wrap=True)
    for done in result.isolation.rounds if result.isolation else ():
        for line in round_lines(done):
            screen.print(safe(line), soft_wrap=True)
    if result.run is None:
        return
    for member in result.run.members[:1]:
        screen.print(safe(f"# {world_line(member)}"), soft_wrap=True)
    collective = ""
    for row in result.run.rows:
        if row.collective != collective:
            collective = row.collective
            for line in collective_lines(collective):
                screen.print(safe(line), soft_wrap=True)
        screen.print(safe(row_line(row)), soft_wrap=True)
    for skipped in result.run.skipped:
        screen.print(safe(skipped_line(skipped)), soft_wrap=True)


def skipped_line(skipped: Skipped) -> str:
    return f"# {skipped.collective} of {skipped.size_bytes} bytes not measured: {skipped.reason}"


def show_result(result: TestResult, screen: Console, verbosity: int = REASONS) -> None:
    """What comes after the rows: grades, findings, what --compare and --find-slow found."""
    for grade in result.grades:
        show_grade(grade, screen, with_reason=verbosity > BRIEF or not result.findings)
    if result.compared:
        _show_compared(result, screen)
    if result.isolation is not None:
        _show_isolation(result.isolation, screen)
    for finding in sorted(result.findings, key=lambda f: ("error", "warning", "info").index(f.problem.severity)):
        trouble = OneTrouble(finding.id, finding, finding.problem.severity)
        if verbosity == BRIEF:
            show_briefly(trouble, finding.problem, screen)
        else:
            screen.print()
            show_problem(finding.problem, finding.id, screen)
    screen.print()
    show(f"{closing_words(result)}{_found(result)}", screen, style="bold")


def _found(result: TestResult) -> str:
    counts = Counter(finding.problem.severity for finding in result.findings)
    words = [counted(counts[each], each) for each in ("error", "warning") if counts[each]]
    return f": {', '.join(words)}" if words else ""


def show_grade(grade: Grade, screen: Console, *, with_reason: bool = True) -> None:
    verdict = f"{grade.verdict}: {grade.collective} {bandwidth(grade.measured)} GB/s bus bandwidth over {grade.link}"
    if grade.expected is not None:
        verdict += f"; such machines reach {grade.expected:g} GB/s ({grade.source})"
    if grade.reason and with_reason:
        verdict += f"; {grade.reason}"
    show(verdict, screen, head=COLORS[grade.verdict])


def _show_compared(result: TestResult, screen: Console) -> None:
    for collective in dict.fromkeys(name for setting in result.compared for name in setting.bus_bandwidth):
        ranked = sorted(result.compared, key=lambda setting: -setting.bus_bandwidth.get(collective, 0.0))
        best = ranked[0].bus_bandwidth.get(collective, 0.0)
        screen.print()
        show(f"{collective}, bus bandwidth at the largest size:", screen, style="bold")
        for setting in ranked:
            value = setting.bus_bandwidth.get(collective)
            figure = f"{value:9.2f} GB/s {value / best:6.0%}" if value and best else f"{setting.outcome:>21}"
            screen.print(safe(f"  {figure}  {words(setting.settings)}"), soft_wrap=True)
    screen.print()
    show(result.comparison, screen, style="bold")


def _show_isolation(isolation: Isolation, screen: Console) -> None:
    screen.print()
    show(isolation.summary, screen, style="bold")
    for culprit in isolation.culprits:
        show(culprit_words(culprit), screen, indent=2)
    if isolation.exclude:
        screen.print()
        show("Leave them out:", screen)
        screen.print(safe(f"    --exclude={','.join(isolation.exclude)}"), style="green", soft_wrap=True)


def culprit_words(culprit: Culprit) -> str:
    what = {
        "node": f"node {culprit.nodes[0] if culprit.nodes else '?'}",
        "link": f"the link between {' and '.join(culprit.nodes)}",
        "nic": f"{culprit.nic} of {culprit.nodes[0] if culprit.nodes else '?'}",
        "unclear": f"not told apart: {', '.join(culprit.nodes)}",
    }[culprit.kind]
    return f"{what}: {culprit.why}" if culprit.why else what


def _verdict(result: TestResult) -> str:
    """Of a test that came to its end."""
    if result.isolation is not None and result.isolation.culprits:
        names = dict.fromkeys(node for culprit in result.isolation.culprits for node in culprit.nodes)
        return f"Slow or broken: {folded([*names])}; "
    graded = {grade.verdict for grade in result.grades}
    if worst := next((verdict for verdict in WORST_FIRST if verdict in graded), None):
        return f"{worst.capitalize()}: "
    if result.exit_status:
        return "Not right: "
    return "Healthy: " if graded == {"healthy"} else "Done: "


def closing_words(result: TestResult) -> str:
    """The last line: the verdict, and what was run; or how it ended before."""
    gloo = " (gloo over CPU, not NCCL)" if result.backend == "gloo" else ""
    nodes = counted(len(result.nodes), "node")
    world = "" if result.isolation or not result.world_size else f", world size {result.world_size}"
    vanished = [end.node for end in (result.run.ends if result.run else ()) if end.how == "lost"]
    # What is on a node that no longer answers nobody has seen; its agent ends the ranks without the head, too.
    left = f"what is left on {folded(vanished)} is unknown" if vanished else "no process is left"
    measured = (result.run and result.run.rows) or result.compared or (result.isolation and result.isolation.rounds)
    until = "what was measured until then is above" if measured else "nothing was measured until then"
    unusable = "it cannot be used" if len(result.nodes) == 1 else "not all of them can be used"
    ended = {
        "complete": f"Cannot tell about NCCL: {nodes}{world}, over gloo on the CPU (which --backend gloo would ask for)"
        if result.verdict_for(result.exit_status) == "cannot tell"
        else f"{_verdict(result)}{nodes}{world}{gloo}",
        "stalled": f"The test stood still and was ended: {nodes}{gloo}; {left}",
        "died": f"The test died: {nodes}{gloo}; {left}",
        "interrupted": f"Interrupted: {nodes}{gloo}; {until}; {left}",
        "preflight failed": f"Not started: the preflight of {nodes} found what would make it fail{gloo}",
        "too few nodes": f"Not started: {nodes} wanted, and {unusable}{gloo}",
    }[result.outcome]
    total = sum(result.seconds.values())
    return f"{ended}, {total:.1f} s"
