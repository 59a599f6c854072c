"""What `isolate.Isolation` found, in words with numbers."""

from collections.abc import Iterable, Sequence
from statistics import median

from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.nccl.isolate_judge import Judgement, Measured, Pair, is_bad
from gpudoctor.nccl.isolate_pairs import pair_of
from gpudoctor.nccl.result import Culprit, Isolation, IsolationRound

MANY_LINKS = 8
"""More bad links than this are told as one: a switch or an uplink has so many, a cable one."""


def rate(value: float) -> str:
    """Bandwidth with three digits: "0.0058 GB/s", "11.8 GB/s", "342 GB/s"."""
    return f"{value:.0f} GB/s" if value >= 100 else f"{value:.3g} GB/s"


def conclude(
    names: Sequence[str],
    rounds: tuple[IsolationRound, ...],
    measured: Measured,
    judgement: Judgement,
    *,
    complete: bool,
) -> Isolation:
    """The answer of --find-slow. `complete`: all rounds were run."""
    words = _Words(names, measured, judgement)
    guilty = sorted(judgement.bad_nodes)
    culprits = [Culprit(kind="node", nodes=(names[node],), why=words.of_node(node)) for node in guilty]
    culprits += words.links()
    culprits += words.unclear()
    summary = [words.summary(culprits), *words.unmeasured()]
    if not complete:
        summary.append(
            f"This was interrupted after {counted(len(rounds), 'round')}: who is not named may still be slow."
        )
    return Isolation(
        rounds=rounds,
        culprits=tuple(culprits),
        exclude=tuple(names[node] for node in guilty) if len(guilty) < len(names) else (),
        summary=" ".join(summary),
    )


class _Words:
    def __init__(self, names: Sequence[str], measured: Measured, judgement: Judgement) -> None:
        self.names = names
        self.measured = measured
        self.judgement = judgement

    def of_node(self, node: int) -> str:
        """What was measured of a guilty node, and what the others reach."""
        parts = []
        if node in self.judgement.bad_alone:
            parts.append(f"{_reached(self.measured.alone[node])} by itself{self._others_alone()}")
        partners = self.judgement.bad_partners.get(node, frozenset())
        if partners:
            parts.append(f"{self._with(node, partners)}{self._healthy_pairs()}")
        return "; ".join(parts)

    def links(self) -> list[Culprit]:
        """Bad pairs whose ends are both good with others."""
        bad = self.judgement.bad_links
        if len(bad) > MANY_LINKS:
            ends = sorted({node for pair in bad for node in pair})
            few = listed(f"{self._pair(pair)} {_reached(self.measured.pairs[pair])}" for pair in bad)
            why = (
                f"{len(bad)} of {counted(len(self.measured.pairs), 'measured pair')} are slow or hang although "
                f"both of their nodes are good with others ({few}){self._healthy_pairs()}: look at a switch or "
                "an uplink between them"
            )
            return [Culprit(kind="unclear", nodes=tuple(self.names[node] for node in ends), why=why)]
        return [
            Culprit(
                kind="link",
                nodes=(self.names[one], self.names[other]),
                why=f"{_reached(self.measured.pairs[one, other])} with each other, although "
                f"{self._good_elsewhere(one)} and {self._good_elsewhere(other)}",
            )
            for one, other in bad
        ]

    def unclear(self) -> list[Culprit]:
        """Bad pairs that could be the fault of either end."""
        pairs = sorted(
            {
                pair_of(node, partner)
                for node in self.judgement.unclear
                for partner in self.judgement.bad_partners[node] - self.judgement.bad_nodes
            }
        )
        if not pairs:
            return []
        if len(self.names) > 2 and self._nothing_ended():
            return [Culprit(kind="unclear", nodes=tuple(self.names), why="no pair got through a test")]
        if len(pairs) > MANY_LINKS:
            ends = sorted({node for pair in pairs for node in pair})
            why = f"{len(pairs)} pairs are slow or hang{self._healthy_pairs()}; no other pair tells which ends are bad"
            return [Culprit(kind="unclear", nodes=tuple(self.names[node] for node in ends), why=why)]
        return [self._either(pair) for pair in pairs]

    def _either(self, pair: Pair) -> Culprit:
        ends = [self.names[end] for end in pair if end not in self.judgement.cleared]
        return Culprit(
            kind="unclear",
            nodes=(self.names[pair[0]], self.names[pair[1]]),
            why=f"{_reached(self.measured.pairs[pair])} with each other{self._healthy_pairs()}; no other pair tells "
            f"whether that is {' or '.join(ends)} or the link between them",
        )

    def summary(self, culprits: Sequence[Culprit]) -> str:
        """The first sentence of the answer."""
        nodes = [culprit.nodes[0] for culprit in culprits if culprit.kind == "node"]
        links = [f"{culprit.nodes[0]} - {culprit.nodes[1]}" for culprit in culprits if culprit.kind == "link"]
        parts = []
        if nodes:
            parts.append(
                f"{counted(len(nodes), 'node')} of {len(self.names)} {_are(nodes)} slow or broken: {listed(nodes)}"
            )
        if links:
            parts.append(
                f"{counted(len(links), 'link')} of {len(self.measured.pairs)} measured {_are(links)} slow or broken: "
                f"{listed(links)}"
            )
        if len(nodes) == len(self.names):
            parts.append("that is all of them, so what they share is at fault, such as the software or its settings")
        open_pairs = [" - ".join(culprit.nodes[:2]) for culprit in culprits if culprit.kind == "unclear"]
        if parts and open_pairs:
            parts.append(f"also slow or broken, with too few measurements to tell why: {listed(open_pairs)}")
        if parts:
            return "; ".join(parts) + "."
        if self._nothing_ended():
            return self._why_nothing_ended()
        if culprits:
            return "Something is slow or broken, and what was measured does not show which node or link it is."
        faster = self.judgement.faster
        return self._all_alike() if faster is None else self._fewer(faster)

    def unmeasured(self) -> list[str]:
        """Nodes whose links nobody knows: too few rounds, or their partners did not work by themselves."""
        paired = {node for pair in self.measured.pairs for node in pair}
        known = paired | self.judgement.bad_nodes
        left = [name for node, name in enumerate(self.names) if node not in known]
        return [f"Not measured with any other node: {listed(left)}."] if left and paired else []

    def _fewer(self, level: float) -> str:
        """That a minority is faster than the norm, in the place of "no node stands out"."""
        fast = {
            node
            for pair, value in self.measured.pairs.items()
            if not is_bad(value, level, self.judgement.bad_below)
            for node in pair
        }
        norm = self.judgement.pair_reference
        return (
            f"Only {listed(self.names[node] for node in sorted(fast))} reach {rate(level)} in pairs; the other "
            f"{counted(len(self.names) - len(fast), 'node')} reach {rate(norm or 0.0)}. That is more than half, so "
            "nobody is called slow for it: the nodes or their links are of two kinds."
        )

    def _nothing_ended(self) -> bool:
        return bool(self.measured.pairs) and not any(self.measured.pairs.values())

    def _why_nothing_ended(self) -> str:
        if len(self.names) == 2:
            return (
                f"{self.names[0]} and {self.names[1]} do not get through a test together. Two nodes cannot tell which "
                "of them, or the link, is at fault: a third node would."
            )
        return (
            f"None of {counted(len(self.measured.pairs), 'pair')} got through a test: that is no single node's fault, "
            "but something that all of them share, such as a firewall, the interface or the software."
        )

    def _all_alike(self) -> str:
        values = [value for value in self.measured.pairs.values() if value is not None]
        if not values:
            return "No pair of nodes was measured, so nothing is known about the links."
        if len(self.names) == 2:
            return (
                f"{self.names[0]} and {self.names[1]} reach {rate(values[0])} together. Two nodes cannot tell whether "
                "that is slow for either of them: a third node would."
            )
        possible = len(self.names) * (len(self.names) - 1) // 2
        return (
            f"No node stands out: {counted(len(values), 'pair')} of {len(self.names)} nodes reach {rate(min(values))} "
            f"to {rate(max(values))}, median {rate(median(values))}; {len(values)} of {possible} links were measured."
        )

    def _with(self, node: int, partners: Iterable[int]) -> str:
        return listed(
            f"{_reached(self.measured.pairs[pair_of(node, partner)])} with {self.names[partner]}"
            for partner in sorted(partners)
        )

    def _good_elsewhere(self, node: int) -> str:
        value, partner = max(
            (value, one if other == node else other)
            for (one, other), value in self.measured.pairs.items()
            if value is not None and node in (one, other)
        )
        return f"{self.names[node]} reaches {rate(value)} with {self.names[partner]}"

    def _others_alone(self) -> str:
        reference = self.judgement.alone_reference
        return "" if reference is None else f", where healthy nodes reach {rate(reference)}: the fault is inside of it"

    def _healthy_pairs(self) -> str:
        reference = self.judgement.pair_reference
        return "" if reference is None else f", where healthy pairs reach {rate(reference)}"

    def _pair(self, pair: Pair) -> str:
        return f"{self.names[pair[0]]} - {self.names[pair[1]]}"


def _reached(value: float | None) -> str:
    return "no result (hung or died)" if value is None else rate(value)


def _are(things: Sequence[object]) -> str:
    return "is" if len(things) == 1 else "are"
