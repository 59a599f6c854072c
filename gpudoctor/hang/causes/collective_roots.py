"""Ranks that name different roots: of one gather or scatter several hold what only its root has."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.hang.causes import SEEN, HangCause, HangJob, Seen, blame
from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.extra_calls import recorders_of
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import ranks_of, who
from gpudoctor.knowledge.places import is_user
from gpudoctor.snapshot.evidence import Collective

Roots = Mapping[int, Collective]


def roots_differ(job: HangJob) -> Iterator[HangCause]:
    """The last gather or scatter of which several ranks take themselves for the root; those that never were it before
    are told. A rank that is no root gives and takes one part: it may be through, whoever it has named."""
    if progress_of(job).verdict == "moves":
        return
    roots: defaultdict[tuple[str, int], dict[int, Collective]] = defaultdict(dict)
    for rank, recorder in recorders_of(job).items():
        for entry in recorder.entries:
            if _is_of_root(entry):
                roots[entry.group, entry.sequence][rank] = entry
    last: dict[str, tuple[int, Roots]] = {}
    for (group, sequence), entries in sorted(roots.items()):
        last[group] = sequence, entries
    for group, (sequence, of_one) in last.items():
        if len(of_one) < 2 or all(entry.state == "completed" for entry in of_one.values()):
            continue
        before = {
            rank for (name, number), ranks in roots.items() for rank in ranks if (name, number) < (group, sequence)
        }
        odd = sorted(set(of_one) - before) or sorted(of_one)[1:]
        yield _differ(of_one, odd)


def _is_of_root(entry: Collective) -> bool:
    """Whether its rank is the root by its own account: the parts of all ranks are there on the root only."""
    sizes = {"gather": entry.output_sizes, "scatter": entry.input_sizes}.get(entry.operation, ())
    return any(all(size) for size in sizes)


def _differ(roots: Roots, odd: Sequence[int]) -> HangCause:
    entry = roots[odd[0]]
    others = sorted(set(roots) - set(odd)) or list(odd)
    return blame(
        "rank-divergent-decision",
        SEEN,
        odd,
        f"{who(odd, 'takes itself', 'take themselves')} for the root of {collective_words(entry)}, and so does "
        f"{ranks_of(others)}",
        [Seen(f"flight recorder of rank {rank}", collective_words(each)) for rank, each in sorted(roots.items())[:4]],
        at=next(filter(is_user, entry.frames), None),
    )


RULES = (roots_differ,)
