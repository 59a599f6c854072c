"""Runs launches on the nodes of a fleet, several at a time, and gathers what they measured and how they ended.

A launch may take as long as it gets on: it is stalled when none of its ranks has said anything new for `timeout`
seconds. Then, or when a node of it has ended too early, the rest of it is stopped, and tells where it was.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from gpudoctor.fleet.fleet import Arrival, Fleet, Lost
from gpudoctor.fleet.messages import Ended, Launch, OrderFailed, Run, Said, Stop
from gpudoctor.nccl.flood import may_be_rank, most_rows, ranks_of
from gpudoctor.nccl.rank_messages import AnyRankMessage, Failed, Member, Phase, Row, Skipped, Trained, decoder
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot.evidence import NodeEvidence

OWN_STORY_SECONDS = 2.0
"""After a node of a launch has failed, the others may take this long to fail by themselves and say why."""
STOP_SECONDS = 8.0
"""An agent collects evidence and ends its ranks within this."""
TORCH_LATER_SECONDS = 15.0
"""torch's own timeout comes this much later than ours, or half of ours: it ends the ranks, and with them what they
could tell. Not more, for a rank takes windows of half of torch's timeout for progress (collective_measure.py)."""
TICK_SECONDS = 0.1
OF_RANK_0 = (Row, Skipped, Trained, Member)
"""What rank 0 says for all, and no other node may."""

Heard = Callable[[Launch, AnyRankMessage], None]
"""What a rank has said; of phases those of the launch's first node, of which one rank tells them."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a signal to end: the ranks are ended, and `results` holds what was measured so far."""

    def __init__(self, results: tuple[RunResult, ...]) -> None:
        super().__init__()
        self.results = results


class _Watch:
    """One launch, as it goes."""

    def __init__(self, launch: Launch, started: float) -> None:
        self.launch = launch
        self.started = started
        self.got_on = started
        self.members: dict[int, Member] = {}
        self.rows: list[Row] = []
        self.skipped: list[Skipped] = []
        self.trained: list[Trained] = []
        self.dropped = 0
        self.ends: dict[int, NodeRanks] = {}
        self.dying_since: float | None = None
        self.stopped_at: float | None = None
        self.stopped_for: Literal["stalled", "died", "interrupted"] | None = None
        self.seconds = 0.0

    @property
    def missing(self) -> tuple[int, ...]:
        """The nodes that have not ended."""
        return tuple(node for node in self.launch.nodes if node not in self.ends)

    def end(self, node: int, ranks: NodeRanks, now: float) -> None:
        """Note how it ended on one node, if that is not known yet."""
        if node in self.ends or node not in self.launch.nodes:
            return
        self.ends[node] = ranks
        if ranks.how != "done" and self.dying_since is None:
            self.dying_since = now
        if not self.missing:
            self.seconds = now - self.started

    def is_beyond_plan(self, node: int, message: object) -> bool:
        """Whether it is not this node's to say, or there are too many of it: no more is kept than a launch can say."""
        if isinstance(message, OF_RANK_0) and 0 not in ranks_of(self.launch, node):
            return True
        if isinstance(message, Row):
            return len(self.rows) >= most_rows(self.launch)
        if isinstance(message, Skipped):
            return len(self.skipped) >= most_rows(self.launch)
        if isinstance(message, Trained):
            return self.launch.train is None or len(self.trained) >= len(self.launch.train.cells)
        return isinstance(message, Member) and not may_be_rank(self.launch, message.rank)

    def result(self, fleet: Fleet) -> RunResult:
        ends = tuple(self.ends[node] for node in self.launch.nodes)
        complete = all(end.how == "done" for end in ends)
        return RunResult(
            outcome="complete" if complete else self.stopped_for or "died",
            nodes=tuple(fleet.name(node) for node in self.launch.nodes),
            members=tuple(self.members[rank] for rank in sorted(self.members)),
            rows=tuple(self.rows),
            skipped=tuple(self.skipped),
            trained=tuple(self.trained),
            ends=ends,
            dropped=self.dropped,
            seconds=round(self.seconds, 3),
        )


def run_launches(
    fleet: Fleet,
    launches: Sequence[Launch],
    *,
    pythons: Mapping[int, str],
    timeout: float,
    heard: Heard | None = None,
    waiting: Callable[[], None] | None = None,
) -> tuple[RunResult, ...]:
    """Run launches on disjoint nodes at the same time; one result each, in their order.

    `pythons`: the training interpreter of a node; without one, the node chooses. `timeout`: seconds without progress.
    `waiting` is called several times a second. Raises `RunInterrupted` on KeyboardInterrupt, when the ranks have been
    stopped.
    """
    return _RunningLaunch(fleet, launches, pythons, timeout, heard, waiting).run()


class _RunningLaunch:
    def __init__(
        self,
        fleet: Fleet,
        launches: Sequence[Launch],
        pythons: Mapping[int, str],
        timeout: float,
        heard: Heard | None,
        waiting: Callable[[], None] | None,
    ) -> None:
        self._fleet = fleet
        self._pythons = pythons
        self._timeout = timeout
        self._heard = heard
        self._waiting = waiting
        now = time.monotonic()
        self._watches = [_Watch(launch, now) for launch in launches]
        self._by_id = {watch.launch.id: watch for watch in self._watches}
        self._orders: dict[int, _Watch] = {}
        """By the number of the order that started, or is to stop, a launch."""

    def run(self) -> tuple[RunResult, ...]:
        try:
            for watch in self._watches:
                self._start(watch)
            self._go_on()
        except KeyboardInterrupt:
            self._interrupt()
            raise RunInterrupted(self._results()) from None
        except BaseException:  # the display's, mostly: a pipe that nobody reads any more
            for watch in self._watches:
                with contextlib.suppress(Exception):
                    self._stop(watch, "interrupted")
            raise
        return self._results()

    def _results(self) -> tuple[RunResult, ...]:
        return tuple(watch.result(self._fleet) for watch in self._watches)

    def _start(self, watch: _Watch) -> None:
        for node in watch.launch.nodes:
            if lost := self._fleet.lost.get(node):
                self._lose(watch, node, lost)
        launch = msgspec.structs.replace(
            watch.launch, timeout=self._timeout + min(TORCH_LATER_SECONDS, self._timeout / 2)
        )
        by_python: dict[str, list[int]] = {}
        for node in watch.missing:
            by_python.setdefault(self._pythons.get(node, ""), []).append(node)
        for python, nodes in by_python.items():
            number = self._fleet.send(Run(launch=launch, python=python, to=tuple(nodes)))
            self._orders[number] = watch

    def _go_on(self) -> None:
        """Until every launch has ended on every node."""
        looked = 0.0
        while any(watch.missing for watch in self._watches):
            event = self._fleet.next_event(TICK_SECONDS)
            now = time.monotonic()
            if event is not None:
                self._take(event, now)
            if now - looked >= TICK_SECONDS:
                looked = now
                for watch in self._watches:
                    self._look(watch, now)
                if self._waiting is not None:
                    self._waiting()

    def _look(self, watch: _Watch, now: float) -> None:
        """Stop a launch that is stalled or dying, and give up nodes that do not answer to that."""
        if not watch.missing:
            return
        if watch.stopped_at is not None:
            if now - watch.stopped_at >= STOP_SECONDS:
                self._give_up(watch, now)
        elif watch.dying_since is not None:
            if now - watch.dying_since >= OWN_STORY_SECONDS:
                self._stop(watch, "died")
        elif now - watch.got_on >= self._timeout:
            self._stop(watch, "stalled")

    def _stop(self, watch: _Watch, why: Literal["stalled", "died", "interrupted"]) -> None:
        if watch.missing and watch.stopped_for != "interrupted":
            watch.stopped_at, watch.stopped_for = time.monotonic(), why
            order = Stop(launch=watch.launch.id, evidence=why != "interrupted", to=watch.missing)
            self._orders[self._fleet.send(order)] = watch

    def _give_up(self, watch: _Watch, now: float) -> None:
        for node in watch.missing:
            silent = Lost("no answer", f"to the order to stop, within {STOP_SECONDS:g} s")
            self._lose(watch, node, self._fleet.lost.get(node, silent), now)

    def _lose(self, watch: _Watch, node: int, lost: Lost, now: float | None = None) -> None:
        words = lost.words
        ranks = NodeRanks(node=self._fleet.name(node), how="lost", error=words)
        watch.end(node, ranks, time.monotonic() if now is None else now)

    def _interrupt(self) -> None:
        for watch in self._watches:
            self._stop(watch, "interrupted")
        self._waiting = self._heard = None
        try:
            self._go_on()
        finally:  # a second Ctrl-C: whoever closes the fleet ends what is left
            now = time.monotonic()
            for watch in self._watches:
                self._give_up(watch, now)

    def _take(self, event: Arrival, now: float) -> None:
        node, what = event.node, event.what
        if isinstance(what, Said):
            watch = self._by_id.get(what.launch)
            if watch is not None and node in watch.launch.nodes and node not in watch.ends:
                self._hear(watch, node, what, now)
        elif isinstance(what, Ended):
            watch = self._by_id.get(what.launch)
            if watch is not None and node in watch.launch.nodes:
                own = ranks_of(watch.launch, node)
                end = NodeRanks(
                    node=self._fleet.name(node),
                    how=what.how,
                    ranks=tuple(state for state in what.ranks if state.rank in own),
                    error=what.error,
                    evidence=_evidence(what.evidence),
                )
                watch.end(node, end, now)
        elif isinstance(what, Lost):
            for watch in self._watches:
                self._lose(watch, node, what, now)
        elif isinstance(what, OrderFailed) and (watch := self._orders.get(what.number)):
            watch.end(node, NodeRanks(node=self._fleet.name(node), how="not started", error=what.error), now)

    def _hear(self, watch: _Watch, node: int, said: Said, now: float) -> None:
        try:
            message = decoder.decode(said.message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        launch = watch.launch
        if watch.is_beyond_plan(node, message):
            watch.dropped += 1
            return
        watch.got_on = now
        if isinstance(message, Row):
            watch.rows.append(message)
        elif isinstance(message, Member):
            watch.members[message.rank] = message
        elif isinstance(message, Skipped):
            watch.skipped.append(message)
        elif isinstance(message, Trained):
            watch.trained.append(message)
        elif isinstance(message, Failed) and watch.dying_since is None:
            watch.dying_since = now
        if self._heard is not None and not (isinstance(message, Phase) and node != launch.nodes[0]):
            self._heard(launch, message)


def _evidence(raw: msgspec.Raw) -> NodeEvidence | None:
    """What an agent has read of its processes; nothing where that is not to be understood."""
    try:
        read = msgspec.json.decode(raw, type=NodeEvidence | None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # None of these processes is left: no line is offered that would start or end one.
    return msgspec.structs.replace(read, own=()) if read is not None else None
