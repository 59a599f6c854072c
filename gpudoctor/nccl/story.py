"""The ranks of a launch that ended early, in words: who, where, in what phase, and what they complain about."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.fleet.messages import RankState
from gpudoctor.hang.words import line_of
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.wording import listed, ranges
from gpudoctor.lazy import lazy_re
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import Reading, read
from gpudoctor.snapshot.evidence import ProcessEvidence

COMPLAINTS = lazy_re(
    r"Connection (reset|refused|closed|timed out)|connection .{0,40}closed|Timed out (waiting|after)|timed out after|"
    r"wait timeout|Broken pipe|Socket Timeout|connectFullMesh|remote (process|error|worker|peer)|ncclRemoteError|"
    r"Watchdog caught|No route to host|Network is unreachable|got 0 bytes|failed to recv|DistNetworkError|"
    r"DistStoreError|failed to pass monitoredBarrier|SIGTERM|Transport endpoint",
    re.IGNORECASE,
)
"""What a rank says when another has left it, or the network between them fails (torch, gloo, NCCL)."""

_COLLECTIVE = lazy_re(r"^(?:data check of )?(?P<collective>\w+) of (?P<size>\d+) bytes$")
_EARLY = ("", "import torch", "CUDA start", "rendezvous", "first all_reduce", "exchange of who is there")
"""The phases before the first measurement, in their order (workers/collective.py)."""
LEAVING = "leaving"
_TRAINING = lazy_re(r"^(?P<way>\w+) (?P<precision>fp32|bf16|fp16) (?:step (?P<step>\d{1,6}): )?(?P<what>.+)$")
_IN_A_STEP = ("samples", "forward", "backward", "comparison of gradients", "optimizer", "comparison after an overflow")
_AT_THE_END = "parameters at the end"
"""Of gpudoctor train-test, in their order (workers/train_loop.py)."""


class TestedRank(NamedTuple):
    """A rank and its node."""

    node: str
    state: RankState
    stack: tuple[str, ...] = ()
    """Its main thread's frames where they were read, innermost first: "all_reduce (distributed_c10d.py:2806)"."""

    @property
    def name(self) -> str:
        """ "rank 3 (pid 4242 on n02)"."""
        return f"rank {self.state.rank} (pid {self.state.pid} on {self.node})"


def ranks(run: RunResult) -> tuple[TestedRank, ...]:
    """All ranks that are known, in order."""
    every: list[TestedRank] = []
    for end in run.ends:
        processes = {process.pid: process for process in end.evidence.processes} if end.evidence is not None else {}
        every += (TestedRank(end.node, state, _stack(processes.get(state.pid))) for state in end.ranks)
    return tuple(sorted(every, key=lambda rank: rank.state.rank))


def _stack(process: ProcessEvidence | None) -> tuple[str, ...]:
    main = main_thread(process.samples[-1], process.pid) if process is not None and process.samples else None
    return tuple(f"{frame.function} ({line_of(frame)})" for frame in main.frames) if main is not None else ()


def complains(error: str) -> bool:
    """Whether an error is about another rank or the way to it, rather than one's own."""
    return bool(COMPLAINTS.search(error))


def progress(phase: str, run: RunResult) -> tuple[int, int, int]:
    """How far a rank in this phase had come; to be compared within one launch."""
    if phase in _EARLY:
        return (_EARLY.index(phase), 0, 0)
    if match := _COLLECTIVE.match(phase):
        size = int(match["size"])
        # A row's size is what was moved: the size asked for, rounded down to whole elements and ranks.
        done = [
            (size - row.size_bytes, number)
            for number, row in enumerate(run.rows)
            if row.collective == match["collective"] and 0 <= size - row.size_bytes < max(64, size // 2)
        ]
        return (len(_EARLY), min(done)[1] if done else len(run.rows), 0 if done else size)
    if match := _TRAINING.match(phase):
        return (len(_EARLY), *_in_training(match, run))
    return (len(_EARLY) + (1 if phase == LEAVING else 0), 0, 0)


def _in_training(phase: re.Match[str], run: RunResult) -> tuple[int, int]:
    """The cell, and how far in it. All that is before the steps counts alike: each framework has its own order."""
    trained_ways = [(trained.way, trained.precision) for trained in run.trained]
    cell = phase["way"], phase["precision"]
    if cell in trained_ways:
        return trained_ways.index(cell), 0
    seen = [_TRAINING.match(rank.state.phase) for rank in ranks(run)]
    untold = {(match["way"], match["precision"]) for match in seen if match is not None} - set(trained_ways)
    if len(untold) > 1:
        return len(trained_ways), 0  # which of them comes first is not known here
    what = phase["what"]
    if phase["step"] is None:
        return len(trained_ways), 10**7 if what == _AT_THE_END else -1
    if phase["way"] == "no_sync" and what == "backward":
        what = "forward"  # both come twice a step, so neither is ahead of the other
    return len(trained_ways), 10 * int(phase["step"]) + (_IN_A_STEP.index(what) if what in _IN_A_STEP else 0)


def in_phase(phase: str) -> str:
    """The phase within a sentence."""
    if phase == "":
        return "before its first phase"
    if phase == LEAVING:
        return "while leaving, after the last measurement"
    return f'in "{phase}"'


def rank_names(some: Sequence[TestedRank]) -> str:
    """ "rank 3", "ranks 0-6,9"."""
    numbers = [rank.state.rank for rank in some]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {ranges(numbers)}"


def others(run: RunResult, some: Sequence[TestedRank]) -> str:
    """What the rest of the ranks was doing, as a sentence; empty when there is no rest."""
    guilty = {rank.state.rank for rank in some}
    phases: dict[str, list[TestedRank]] = {}
    for rank in ranks(run):
        if rank.state.rank not in guilty and rank.state.phase:
            phases.setdefault(rank.state.phase, []).append(rank)
    if not phases:
        return ""
    elsewhere = [f"{rank_names(group)} {in_phase(phase)}" for phase, group in phases.items()]
    return f"The others were last seen: {listed(elsewhere, most=3)}. "


def blamed(
    cause: str,
    summary: str,
    run: RunResult,
    nodes: Sequence[str],
    ranks: Sequence[int] = (),
    *,
    evidence: Iterable[Reading[Any]],
    meaning: str = "",
    fix: Fix | None = None,
    commands: Sequence[Command] | None = None,
) -> Finding:
    """What is found of one of `causes.CAUSES`; without `meaning` and `fix` its own.

    The lines of the fix are for the first of the nodes; `commands` stand in their place.
    """
    known = CAUSES[cause]
    remedy = fix or known.fix
    lines = [on(nodes[0], line, run) for line in remedy.commands] if commands is None else commands
    return finding(
        cause,
        "error",
        summary,
        meaning=(meaning or known.meaning).strip(),
        fix=Fix(remedy.text, tuple(lines)),
        evidence=tuple(evidence),
        nodes=nodes,
        ranks=ranks,
    )


def on(node: str, line: Command, run: RunResult) -> Command:
    """A line to paste, with the node that it is for where there are several."""
    return line if len(run.nodes) == 1 else command("{:line}  # on {:host}", line, node)


def phase_reading(rank: TestedRank) -> Reading[str]:
    seconds = f" for {rank.state.seconds_in_phase:g} s" if rank.state.seconds_in_phase else ""
    return read(f"last word of rank {rank.state.rank} on {rank.node}", f"{rank.state.phase or 'none'}{seconds}")


def error_reading(rank: TestedRank) -> Reading[str]:
    return read(f"error of rank {rank.state.rank} on {rank.node}", rank.state.error)


def stack_reading(rank: TestedRank) -> Reading[str]:
    return read(f"stack of rank {rank.state.rank} on {rank.node}", " < ".join(rank.stack[:4]))


def launcher_reading(end: NodeRanks) -> Reading[str]:
    return read(f"torchrun on {end.node}", end.error)


def evidence(some: Sequence[TestedRank]) -> Iterator[Reading[str]]:
    """What is known of some ranks, at most four."""
    for rank in some[:4]:
        yield phase_reading(rank)
        if rank.stack:
            yield stack_reading(rank)


def nodes_of(some: Sequence[TestedRank]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rank.node for rank in some))


def numbers_of(some: Sequence[TestedRank]) -> tuple[int, ...]:
    return tuple(rank.state.rank for rank in some)
