"""What flight recorders show by themselves: different collectives, shapes, groups and peers."""

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.recorders import Agreement, Split
from gpudoctor.hang.recorders import words as collective_words
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import (
    confirm_for,
    entry_words,
    fix_for,
    place_words,
    ranks_of,
    verb,
    where,
)
from gpudoctor.knowledge.wording import ranges
from gpudoctor.snapshot.evidence import Collective, Frame

LARGE_OBJECT_BYTES = 64 * 1024 * 1024
"""Of a pickled object from which it is named: our rule of thumb; it passes through CPU, pickle and a padded gather."""
STALE = 0.15
"""How much less sure files make that were written before the present look."""
MOST_PARTIES = 4
ONE_ORDER = (
    "Call the collectives of different groups in the same order on every rank, and give each call the group that all "
    "its ranks give it."
)


def disagree(job: Job) -> Iterator[HangCause]:
    """Ranks that came to the same number of a group with something else."""
    agreement = job.agreement
    if agreement is None or progress_of(job).verdict == "moves":
        return
    doubt = STALE if agreement.stale else 0.0
    for split in agreement.splits[:MOST_PARTIES]:
        if split.kind in ("shape", "dtype") and len(split.parties) > 1:
            yield _shapes(job, split, 0.95 - doubt)
        elif split.kind == "operation" and len(split.parties) > 1:
            yield _operations(job, split, 0.85 - doubt)
        elif split.kind == "peer":
            yield _peers(job, split, 0.8 - doubt)
        elif split.kind == "none" and split is agreement.first:
            yield from _large_object(job, split)


def groups_crossed(job: Job) -> Iterator[HangCause]:
    """Ranks that wait for each other in different groups: each group lacks one that stands in the other."""
    agreement = job.agreement
    if agreement is None or progress_of(job).verdict == "moves":
        return
    ring = [split for split in agreement.splits if split.group in agreement.cycle and split.parties]
    if len(ring) < 2:
        yield from _apart(job, agreement)
        return
    ring.sort(key=lambda split: sum(len(ranks) for ranks, _ in split.parties))
    small = ring[0]
    culprits = sorted({rank for ranks, _ in small.parties for rank in ranks})
    doubt = STALE if agreement.stale else 0.0
    yield HangCause(
        cause="collective-order-mismatch",
        confidence=0.92 - doubt,
        ranks=tuple(culprits),
        where=where(_frame(job, culprits, small.parties[0][1])),
        evidence=tuple(seen for split in ring[:MOST_PARTIES] for seen in _seen(split)),
        summary="ranks wait for each other in different process groups: "
        + ", ".join(_party(split) for split in ring[::-1][:3]),
        fix=fix_for("collective-order-mismatch", ONE_ORDER),
        confirm=confirm_for("collective-order-mismatch") if doubt else "",
    )


def _apart(job: Job, agreement: Agreement) -> Iterator[HangCause]:
    """The same, where the recorders do not name a group's members, as gloo's JSON does not: all ranks wait in
    collectives, and those that a group lacks are alone in another one."""
    progress = progress_of(job)
    if progress.away or progress.stopped or progress.ended or job.missing or agreement.unread:
        return
    unnamed = {split.group: split for split in agreement.splits if not split.members_known and not split.behind}
    for split in agreement.splits:
        elsewhere = dict(split.elsewhere)
        groups = {entry.group for entry in elsewhere.values()}
        if split.kind != "missing" or not split.parties or not split.behind or set(elsewhere) != set(split.behind):
            continue
        if not groups or not groups <= set(unnamed) - {split.group}:
            continue
        others = [unnamed[group] for group in sorted(groups)]
        confidence = 0.85 - (STALE if agreement.stale else 0.0)
        yield HangCause(
            cause="collective-order-mismatch",
            confidence=confidence,
            ranks=split.behind,
            where=where(_frame(job, split.behind, others[0].parties[0][1])) if others[0].parties else None,
            evidence=_seen(split),
            summary="ranks wait for each other in different process groups: "
            + ", ".join(_party(each) for each in (split, *others)[:3] if each.parties),
            fix=fix_for("collective-order-mismatch", ONE_ORDER),
            confirm=confirm_for("collective-order-mismatch"),
        )
        return


def behind(job: Job) -> Iterator[HangCause]:
    """Ranks that recorders show behind, where no process of theirs was seen: dumps are all there is."""
    agreement = job.agreement
    split = agreement.first if agreement is not None else None
    if agreement is None or split is None or split.kind != "missing" or not split.parties or not split.behind:
        return
    seen = {rank.rank for rank in job.ranks}
    if seen & set(split.behind) or progress_of(job).verdict == "moves":
        return
    silent = [rank for rank in split.behind if rank in agreement.unread]
    culprits = silent or list(split.behind)
    name = "rank-died" if silent else "slow-rank-timeout"
    yield HangCause(
        cause=name,
        confidence=0.5 if silent else 0.45,
        ranks=tuple(sorted(culprits)),
        where=where(_frame(job, (), split.parties[0][1])),
        evidence=_seen(split),
        summary=f"{ranks_of(split.behind)} {verb(split.behind, 'has', 'have')} not come to "
        f"{collective_words(split.parties[0][1])}" + (", and left no dump" if silent else ""),
        fix=fix_for(name),
        confirm="The stack of that rank decides, or the end of its output: whether it died, was busy, or took another "
        "way through the program.",
    )


def _shapes(job: Job, split: Split, confidence: float) -> HangCause:
    (large, _), (small, entry) = split.parties[0], split.parties[-1]
    what = "types" if split.kind == "dtype" else "sizes"
    by_ddp = not entry.frames and all(
        rank.place.kind == "backward" for rank in job.ranks if rank.rank in {*large, *small}
    )
    name = "rank-dependent-graph" if by_ddp and job.ranks else "shape-mismatch"
    return HangCause(
        cause=name,
        confidence=confidence - (0.1 if name != "shape-mismatch" else 0.0),
        ranks=tuple(sorted(small)),
        where=where(_frame(job, small, entry)),
        evidence=_seen(split),
        summary=f"ranks came to {entry.operation} #{split.sequence} of group {split.group} with different {what}: "
        + ", ".join(f"{ranks_of(ranks)} {_tensor(each)}" for ranks, each in split.parties[:3]),
        fix=fix_for(name),
        confirm="" if confidence >= 0.9 else confirm_for(name),
    )


def _operations(job: Job, split: Split, confidence: float) -> HangCause:
    small, entry = split.parties[-1]
    return HangCause(
        cause="collective-order-mismatch",
        confidence=confidence,
        ranks=tuple(sorted(small)),
        where=where(_frame(job, small, entry)),
        evidence=_seen(split),
        summary=f"ranks came to #{split.sequence} of group {split.group} with different operations: "
        + ", ".join(f"{ranks_of(ranks)} with {entry_words(each)}" for ranks, each in split.parties[:3]),
        fix=fix_for("collective-order-mismatch"),
        confirm=confirm_for("collective-order-mismatch"),
    )


def _peers(job: Job, split: Split, confidence: float) -> HangCause:
    ranks, entry = split.parties[-1] if split.parties else ((), None)
    return HangCause(
        cause="p2p-order",
        confidence=confidence,
        ranks=tuple(sorted(ranks)),
        where=where(_frame(job, ranks, entry)) if entry is not None else None,
        evidence=_seen(split),
        summary="send and recv do not pair: "
        + ", ".join(
            f"{ranks_of(each)} in {found.operation} with peer {found.peer}" for each, found in split.parties[:3]
        ),
        fix=fix_for("p2p-order"),
        confirm=confirm_for("p2p-order"),
    )


def _large_object(job: Job, split: Split) -> Iterator[HangCause]:
    """Everybody gathers a pickled object, and it is huge."""
    for ranks, entry in split.parties[:1]:
        bytes_ = _elements(entry)
        if "uint8" not in " ".join(entry.dtypes).lower() and "byte" not in " ".join(entry.dtypes).lower():
            return
        if entry.operation in ("all_gather", "gather", "broadcast") and bytes_ >= LARGE_OBJECT_BYTES:
            yield HangCause(
                cause="object-collective",
                confidence=0.7,
                ranks=tuple(sorted(ranks)),
                where=where(_frame(job, ranks, entry)),
                evidence=_seen(split),
                summary=f"{ranks_of(ranks)} {verb(ranks, 'moves', 'move')} a pickled object of {bytes_} bytes in "
                f"{entry_words(entry)}",
                fix=fix_for("object-collective"),
                confirm=confirm_for("object-collective"),
            )


def _elements(entry: Collective) -> int:
    most = 0
    for shape in entry.input_sizes:
        number = 1
        for length in shape:
            number *= max(0, length)
        most = max(most, number)
    return most


def _tensor(entry: Collective) -> str:
    sizes = ", ".join("x".join(map(str, shape)) for shape in entry.input_sizes[:3])
    return f"{entry.dtypes[0] if entry.dtypes else ''}[{sizes}]"


def _party(split: Split) -> str:
    ranks, entry = split.parties[0]
    return f"{ranks_of(ranks)} in {collective_words(entry)}"


def _seen(split: Split) -> tuple[Seen, ...]:
    found = [
        Seen(f"flight recorder of {ranks_of(ranks)}", entry_words(entry))
        for ranks, entry in split.parties[:MOST_PARTIES]
    ]
    if split.behind:
        found.append(
            Seen("flight recorder", f"ranks {ranges(split.behind)} have not come to #{split.sequence} of {split.group}")
        )
    found += [
        Seen(f"flight recorder of rank {rank}", f"is in {entry_words(entry)}")
        for rank, entry in split.elsewhere[:MOST_PARTIES]
    ]
    return tuple(found)


def _frame(job: Job, ranks: Sequence[int], entry: Collective) -> Frame | None:
    """The user's frame of an entry, else of the first of the ranks."""
    if entry.frames:
        return entry.frames[0]
    by_rank: Mapping[int, Rank] = {rank.rank: rank for rank in job.ranks}
    return next((by_rank[rank].place.user_frame for rank in ranks if rank in by_rank), None)


# ---------------------------------------------------------------- point to point, by stacks


def face_to_face(job: Job) -> Iterator[HangCause]:
    """Ranks that all send, or all receive: each waits for the other half."""
    progress = progress_of(job)
    pairs = [rank for rank in progress.waiting if rank.place.kind == "point-to-point"]
    if progress.verdict not in ("stuck", "held") or len(pairs) < 2 or progress.stopped or progress.ended:
        return
    operations = {rank.place.operation for rank in pairs}
    everybody = len(pairs) == len(job.ranks) and not job.missing
    one_way = operations <= {"send", "isend"} or operations <= {"recv", "irecv"}
    confidence = 0.85 if everybody and one_way else 0.5 if everybody else 0.4
    lines = list(dict.fromkeys(f"{ranks_of([rank])} {place_words(rank.place)}" for rank in pairs[:MOST_PARTIES]))
    yield HangCause(
        cause="p2p-order",
        confidence=confidence,
        ranks=tuple(rank.rank for rank in pairs),
        where=where(pairs[0].place.user_frame),
        evidence=tuple(Seen(f"rank {rank.rank} pid {rank.pid} stack", place_words(rank.place)) for rank in pairs[:8]),
        summary=("all ranks wait to " + ("send" if "send" in next(iter(operations)) else "receive") + ": ") * one_way
        + "; ".join(lines)
        + (f" and {len(pairs) - MOST_PARTIES} more" if len(pairs) > MOST_PARTIES else ""),
        fix=fix_for("p2p-order"),
        confirm=confirm_for("p2p-order"),
    )


RULES = (disagree, groups_crossed, behind, face_to_face)
