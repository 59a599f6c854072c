"""Plans the rounds of --find-slow: which groups of nodes to measure next, and which node or link is the slow one.

Rounds: each node by itself; adjacent pairs; regrouped pairs (the two rounds of DLRover's node check); suspects with
known-good nodes until each met enough of them. Up to four nodes every pair is measured, up to eight most of them. At
most 2 + log2(nodes) rounds; the groups of a round are disjoint and run at the same time.
"""

import random
from collections.abc import Sequence

from msgspec import Struct

from gpudoctor.errors import BadInput
from gpudoctor.nccl import result
from gpudoctor.nccl.isolate_judge import BAD_BELOW, Judgement, Measured, judge
from gpudoctor.nccl.isolate_pairs import Pair, adjacent, among_themselves, matched, pair_of, round_robin
from gpudoctor.nccl.isolate_words import conclude

EVERY_PAIR_UP_TO = 4
"""Nodes; with more of them all pairs would take more than 2 + log2(nodes) rounds."""
FEW = 8
"""Nodes; rounds that are left over then reach most of the links. With more nodes they would reach few."""
ENOUGH_PARTNERS = 3
"""A suspect is measured with so many partners before it is guilty, when the rounds suffice. Two known-good ones tell
a bad node from a bad link; a third keeps a hiccup from accusing anybody. Our rule of thumb."""


class Round(Struct, frozen=True):
    """Groups of node indices that are measured at the same time: one node by itself, or two."""

    purpose: str
    groups: tuple[tuple[int, ...], ...]


def most_rounds(nodes: int) -> int:
    """2 + log2(nodes), rounded down."""
    return 1 + nodes.bit_length()


class Isolating:
    """Ask `next_round`, measure its groups, `feed` what they reached; until there is no next round."""

    def __init__(self, names: Sequence[str], *, ranks_alone: bool, bad_below: float = BAD_BELOW) -> None:
        """`ranks_alone`: a node by itself has several ranks, so that there is something to measure in it.
        `bad_below`: the share of what healthy groups reach below which one is bad.

        Raises ValueError for fewer than two nodes.
        """
        if len(names) < 2:
            raise BadInput("--find-slow compares nodes, and there is only one; name at least two")
        self.names = tuple(names)
        self.ranks_alone = ranks_alone
        self.bad_below = bad_below
        self._measured = Measured(alone={}, pairs={})
        self._done: list[tuple[Round, tuple[float | None, ...]]] = []
        self._open: Round | None = None
        self._over = False
        # The same answer every time; what matters is that the second grouping has nothing to do with the first.
        self._random = random.Random(len(names))
        few = len(names) <= EVERY_PAIR_UP_TO
        self._schedule: list[Round] | None = self._every_pair() if few else None

    @property
    def known_good(self) -> frozenset[int]:
        """Nodes that took part in a healthy pair so far."""
        return self._judgement().cleared

    def next_round(self) -> Round | None:
        """What to measure next; None when nothing more would help. Raises RuntimeError before `feed` of the last."""
        if self._open is not None:
            raise RuntimeError("feed the values of the last round first")
        if not self._over:
            self._open = self._plan()
            self._over = self._open is None
        return self._open

    def feed(self, values: Sequence[float | None]) -> None:
        """Bus bandwidth of each group of the round, GB/s; None for one that hung or died.

        Raises ValueError when the number of values is not that of the groups.
        """
        if self._open is None:
            raise RuntimeError("no round was asked for")
        self._done.append((self._open, self._note(self._open, values)))
        self._open = None

    def correct(self, rounds: Sequence[Sequence[float | None]]) -> None:
        """Other values for the groups of all rounds so far: of a size that all of them have measured."""
        self._done = [(done, self._note(done, values)) for (done, _), values in zip(self._done, rounds, strict=True)]

    def _note(self, done: Round, values: Sequence[float | None]) -> tuple[float | None, ...]:
        usable = tuple(value if value is not None and 0 < value < float("inf") else None for value in values)
        for group, value in zip(done.groups, usable, strict=True):
            if len(group) == 1:
                self._measured.alone[group[0]] = value
            else:
                self._measured.pairs[pair_of(*group)] = value
        return usable

    def conclusion(self) -> result.Isolation:
        """What the rounds show; also before the last, when the test was interrupted."""
        rounds = tuple(
            result.IsolationRound(
                purpose=done.purpose,
                groups=tuple(tuple(self.names[node] for node in group) for group in done.groups),
                bus_bandwidth=values,
            )
            for done, values in self._done
        )
        judgement = judge(self._measured, len(self.names), over=True, bad_below=self.bad_below)
        return conclude(self.names, rounds, self._measured, judgement, complete=self._over)

    def _judgement(self) -> Judgement:
        return judge(self._measured, len(self.names), bad_below=self.bad_below)

    def _plan(self) -> Round | None:
        if self._schedule is not None:
            return self._next_of_schedule(self._schedule)
        if len(self._done) >= most_rounds(len(self.names)):
            return None
        everyone = range(len(self.names))
        if self.ranks_alone and not self._done:
            return Round("each node by itself", tuple((node,) for node in everyone))
        judgement = self._judgement()
        active = [node for node in everyone if node not in judgement.bad_alone]
        if not judgement.bad_partners and len(active) <= FEW:
            return self._further_links(active)
        if not self._measured.pairs:
            return _round("pairs", adjacent(active))
        if len(self._done) == 1 + self.ranks_alone:
            return _round("regrouped pairs", self._regrouped(active, judgement))
        if judgement.pair_reference is None and len(active) >= FEW:
            return None  # No pair has ended in two rounds: what all of them share is broken, and more rounds hang too.
        suspects = self._suspects(active, judgement)
        if suspects:
            return _round("suspects with known-good nodes", self._tried_again(suspects, judgement))
        if len(active) <= FEW:
            return _round("regrouped pairs", among_themselves(active, self._measured.pairs))
        return None

    def _further_links(self, active: Sequence[int]) -> Round | None:
        """Few nodes that are all alike so far: rounds of a tournament.

        When three of five nodes are healthy, three such rounds hold a pair of them; rounds drawn at random may not,
        and then all pairs are slow and nothing stands out.
        """
        purpose = "regrouped pairs" if self._measured.pairs else "pairs"
        for seats in round_robin(len(active)):
            pairs = [pair_of(active[one], active[other]) for one, other in seats]
            if not any(pair in self._measured.pairs for pair in pairs):
                return _round(purpose, pairs)
        return None

    def _regrouped(self, active: Sequence[int], judgement: Judgement) -> list[Pair]:
        """Slow pairs' nodes with those of the fastest pairs; the others anew."""
        suspects = self._suspects(active, judgement)
        best: dict[int, float] = {}
        for pair, value in self._measured.pairs.items():
            for node in pair:
                best[node] = max(best.get(node, 0.0), value or 0.0)
        helpers = sorted(judgement.cleared, key=lambda node: (-best[node], node))
        pairs, left, free = matched(suspects, helpers, self._measured.pairs)
        self._random.shuffle(free)
        return [*pairs, *among_themselves([*left, *free], self._measured.pairs)]

    def _tried_again(self, suspects: Sequence[int], judgement: Judgement) -> list[Pair]:
        helpers = sorted(judgement.cleared)
        self._random.shuffle(helpers)
        pairs, left, _ = matched(suspects, helpers, self._measured.pairs)
        return [*pairs, *among_themselves(left, self._measured.pairs)]

    def _suspects(self, active: Sequence[int], judgement: Judgement) -> list[int]:
        """Neither cleared nor bad often enough; the least measured first, and one of each pair before its other."""

        def urgency(node: int) -> tuple[int, bool, int]:
            partners = judgement.bad_partners.get(node, frozenset())
            return len(partners), any(other < node for other in partners - judgement.cleared), node

        def decided(node: int) -> bool:
            known = judgement.bad_with_cleared(node)
            return len(known) > 1 and len(judgement.bad_partners[node]) >= ENOUGH_PARTNERS

        return sorted((node for node in active if node not in judgement.cleared and not decided(node)), key=urgency)

    def _every_pair(self) -> list[Round]:
        """All pairs; with three nodes the one that is left out of a pair runs by itself meanwhile."""
        nodes = len(self.names)
        rounds = [tuple(pairs) for pairs in round_robin(nodes)]
        by_itself = tuple((node,) for node in range(nodes))
        if not self.ranks_alone:
            return [Round("pairs", pairs) for pairs in rounds]
        if nodes == 3:
            return [
                Round(
                    "pairs, the third by itself", (*pairs, *(group for group in by_itself if group[0] not in pairs[0]))
                )
                for pairs in rounds
            ]
        return [Round("each node by itself", by_itself), *(Round("pairs", pairs) for pairs in rounds)]

    def _next_of_schedule(self, schedule: list[Round]) -> Round | None:
        """The next round, without groups of a node that hung by itself: they would hang too."""
        hung = {node for node, value in self._measured.alone.items() if value is None}
        while schedule:
            wanted = schedule.pop(0)
            groups = tuple(group for group in wanted.groups if hung.isdisjoint(group))
            if groups:
                return Round(wanted.purpose, groups)
        return None


def _round(purpose: str, pairs: Sequence[Pair]) -> Round | None:
    return Round(purpose, tuple(sorted(pairs))) if pairs else None
