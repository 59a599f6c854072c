"""The whole test: reach the nodes, preflight, train every cell, judge. Everything it tells goes through a `TrainShow`.

A cell that hangs or crashes takes its launch with it: it is named and explained, and the cells after it get a launch
of their own.
"""

import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.messages import Launch, TrainCell
from gpudoctor.fleet.reach import reach
from gpudoctor.nccl.bandwidth_test import backend_before
from gpudoctor.nccl.finding import Finding, has_errors
from gpudoctor.nccl.lost import lost_findings
from gpudoctor.nccl.preflight import preflight
from gpudoctor.nccl.prepared import Prepared, preflight_wish
from gpudoctor.nccl.rank_messages import AnyRankMessage, Member, Phase, Trained
from gpudoctor.nccl.result import RunResult
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.stopped import why_stopped
from gpudoctor.train.judge import ended, judge
from gpudoctor.train.plan import CellGroup, Plan, answered_cells, plan, train_plan
from gpudoctor.train.report import Cell, TrainReport
from gpudoctor.train.show import TrainShow
from gpudoctor.train.ways import PRECISIONS, WAYS
from gpudoctor.train.wish import TrainWish

MOST_LOST_LAUNCHES = 3
"""After so many launches of a group have hung or died, what is left of it would, too, and each may take --timeout."""
ORDER = {name: number for number, name in enumerate(WAYS)}


def train_test(fleet: Fleet, wish: TrainWish, show: TrainShow) -> TrainReport:
    """Run the test on all nodes of the fleet, which the caller closes.

    An interrupted test gives what was trained so far. Raises `ValueError` (one line for the user) when these nodes
    cannot run what was wished.
    """
    began = time.monotonic()
    report = _test(fleet, wish, show)
    return msgspec.structs.replace(report, seconds=round(time.monotonic() - began, 3))


def _test(fleet: Fleet, wish: TrainWish, show: TrainShow) -> TrainReport:
    report = TrainReport(
        gpudoctor=__version__,
        backend=backend_before(wish.test, ()),
        steps=wish.steps,
        reached_by=fleet.how,
        cells=tuple(answered_cells(wish)),
    )
    if not wish.ways:
        return report
    reach(fleet, timeout=fleet.patience, on_change=lambda found: show.reaching(fleet, found))
    report = msgspec.structs.replace(report, nodes=tuple(node.name for node in fleet.nodes))
    if fleet.lost:
        return msgspec.structs.replace(report, outcome="too few nodes", findings=lost_findings(fleet))
    seen = preflight(fleet, preflight_wish(wish.test), on_step=show.step)
    findings = (*lost_findings(fleet), *seen.findings)
    report = msgspec.structs.replace(report, findings=findings)
    if has_errors(findings):
        backend = backend_before(wish.test, tuple(seen.snapshots.values()))
        return msgspec.structs.replace(report, outcome="preflight failed", backend=backend)
    prepared = Prepared(fleet, wish.test, seen)
    ranks = tuple(prepared.ranks_on(node) for node in prepared.nodes)
    head = next(iter(seen.snapshots.values()), None)
    files = head.training.torch_files.value_or(None) if head is not None else None
    report = msgspec.structs.replace(
        report,
        backend=prepared.backend,
        why_backend=prepared.why_backend,
        ranks_per_node=ranks,
        settings=dict(wish.test.settings),
        torch=files.version if files is not None and files.version else "",
    )
    made = plan(wish, ranks, device=prepared.device)
    show.planned(report, sum(len(group.cells) for group in made.groups))
    return _Training(prepared, wish, show, report, made).run()


class _Training:
    def __init__(self, prepared: Prepared, wish: TrainWish, show: TrainShow, report: TrainReport, plan: Plan) -> None:
        self._prepared = prepared
        self._wish = wish
        self._show = show
        self._report = report
        self._plan = plan
        self._done: dict[tuple[str, str], Cell] = {}
        self._findings: list[Finding] = []
        self._member: Member | None = None

    def run(self) -> TrainReport:
        interrupted = False
        try:
            for group in self._plan.groups:
                self._run_group(group)
        except KeyboardInterrupt as stop:
            interrupted = True
            for run in stop.results if isinstance(stop, RunInterrupted) else ():
                self._hear_members(run)
        return self._answer(interrupted)

    def _run_group(self, group: CellGroup) -> None:
        """Launch the cells, and again those that are left after one that hung or died."""
        left = group.cells
        lost = 0
        while left:
            launch = self._launch(group, left)
            run = self._run(launch)
            self._hear_members(run)
            if run.outcome == "complete":
                why = "the ranks ended without a word about it"
            else:
                left, cell = self._explain(run, left)
                lost += 1
                if cell is not None and not self._prepared.fleet.lost and lost < MOST_LOST_LAUNCHES:
                    continue
                why = f"{lost} cells before it hung or crashed" if lost > 1 else "the ranks could not go on"
            self._missing(left, why)
            return

    def _launch(self, group: CellGroup, cells: Sequence[TrainCell]) -> Launch:
        prepared = self._prepared
        nodes = prepared.nodes[:1] if group.one_process else prepared.nodes
        # One process may start as many as the node would have ranks, or use as many devices.
        train = train_plan(self._wish, cells, prepared.ranks_on(nodes[0]))
        return prepared.launch(nodes, train=train, ranks_per_node=(1,) if group.one_process else None)

    def _run(self, launch: Launch) -> RunResult:
        self._show.started(launch)
        (run,) = run_launches(
            self._prepared.fleet,
            [launch],
            pythons=self._prepared.preflight.interpreters,
            timeout=self._prepared.wish.timeout,
            heard=self._heard,
        )
        return run

    def _heard(self, launch: Launch, message: AnyRankMessage) -> None:
        if isinstance(message, Trained):
            self._take(launch, message)
        elif isinstance(message, Phase):
            self._show.phase(message.phase)

    def _take(self, launch: Launch, trained: Trained) -> None:
        asked = launch.train.cells if launch.train is not None else ()
        if any((cell.way, cell.precision) == (trained.way, trained.precision) for cell in asked):
            self._note(judge(trained, backend=self._prepared.backend))

    def _note(self, cell: Cell) -> None:
        if (cell.way, cell.precision) not in self._done:
            self._done[cell.way, cell.precision] = cell
            self._show.cell(cell)

    def _hear_members(self, run: RunResult) -> None:
        self._member = self._member or next(iter(run.members), None)

    def _explain(self, run: RunResult, cells: Sequence[TrainCell]) -> tuple[tuple[TrainCell, ...], Cell | None]:
        """Name the cell in which a launch ended, if it is one's; what is left without it."""
        left = self._left(cells)
        findings = why_stopped(run, self._prepared.by_name)
        guilty = cell_of(run, left)
        if guilty is None:
            self._findings += findings
            return left, None
        how: Literal["hung", "crashed"] = "hung" if run.outcome == "stalled" else "crashed"
        cell = ended(Cell(way=guilty.way, precision=guilty.precision, outcome=how), findings)
        self._note(cell)
        self._findings += findings[1:]
        return tuple(cell for cell in left if cell != guilty), cell

    def _left(self, cells: Sequence[TrainCell]) -> tuple[TrainCell, ...]:
        return tuple(cell for cell in cells if (cell.way, cell.precision) not in self._done)

    def _missing(self, cells: Sequence[TrainCell], why: str) -> None:
        for cell in self._left(cells):
            self._note(Cell(way=cell.way, precision=cell.precision, outcome="not reached", reason=why))

    def _answer(self, interrupted: bool) -> TrainReport:
        if interrupted:
            for group in self._plan.groups:
                for cell in self._left(group.cells):
                    key = cell.way, cell.precision
                    self._done[key] = Cell(
                        way=cell.way, precision=cell.precision, outcome="not reached", reason="interrupted"
                    )
        cells = sorted((*self._done.values(), *self._plan.without), key=lambda cell: ORDER.get(cell.way, len(ORDER)))
        member = self._member
        return msgspec.structs.replace(
            self._report,
            cells=tuple(cells),
            findings=(*self._findings, *self._report.findings),
            torch=(member.torch if member else "") or self._report.torch,
            device=member.device if member else "",
            outcome="interrupted" if interrupted else "complete",
        )


def cell_of(run: RunResult, left: Sequence[TrainCell]) -> TrainCell | None:
    """The cell that the ranks were in when their launch ended; None where none of them had come to one.

    Cells are trained in their order, so it is the first that rank 0 has not told of, if any rank has begun it.
    """
    phases = [state.phase for end in run.ends for state in end.ranks]
    return left[0] if left and any(map(_is_of_a_cell, phases)) else None


def _is_of_a_cell(phase: str) -> bool:
    """ "ddp fp32 step 3: backward", as workers/train_way.py says it."""
    way, _, rest = phase.partition(" ")
    return way in WAYS and rest.split(" ")[0] in PRECISIONS
