"""What flight recorders show by themselves: different collectives, shapes, groups and peers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from gpudoctor.hang.causes import CAUSES, HINT, LIKELY, POSSIBLE, PROVED, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.causes.collective_members import conflicts
from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.crossed import out_of_order
from gpudoctor.hang.doing import short
from gpudoctor.hang.extra_calls import recorders_of
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.recorders import Agreement, GroupSplit, line_of_program
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.signatures import EXCHANGES, TO_A_ROOT
from gpudoctor.hang.since_last import since_their_last
from gpudoctor.hang.waits_for import ChainEnd
from gpudoctor.hang.words import entry_words, ranks_of, verb, who
from gpudoctor.knowledge.calls import unlike_lines
from gpudoctor.knowledge.places import is_user, main_thread
from gpudoctor.snapshot.evidence import Collective, Frame, SourceContext
from gpudoctor.sure import BEST, less_sure

LARGE_OBJECT_BYTES = 64 * 1024 * 1024
"""Of a pickled object from which it is named: our rule of thumb; it passes through CPU, pickle and a padded gather."""
MOST_PARTIES = 4
KEPT_FRAMES = 12
"""So many are read of an entry: of more, it is not seen where the stack begins (read/job/recorder_entries.py)."""
ORDER = "collective-order-mismatch"


def _shown(agreement: Agreement) -> float:
    """How sure recorders make; those of files that were written before the present look may be out of date."""
    return SEEN if agreement.stale else PROVED


def disagree(job: HangJob) -> Iterator[HangCause]:
    """Ranks that came to the same number of a group with something else."""
    agreement = job.agreement
    if agreement is None or progress_of(job).verdict == "moves":
        return
    for split in agreement.splits[:MOST_PARTIES]:
        if split.kind in ("shape", "dtype") and len(split.parties) > 1 and not _other_calls(job, split):
            yield _shapes(job, split, _shown(agreement))
        elif split.kind in ("operation", "shape", "dtype") and len(split.parties) > 1:
            yield from _operations(job, split)
        elif split.kind == "peer":
            yield _peers(job, split)
        elif split.kind == "none" and split is agreement.first:
            yield from _large_object(job, split)


def groups_crossed(job: HangJob) -> Iterator[HangCause]:
    """Ranks that wait for each other in different groups: each group lacks one that stands in the other."""
    agreement = job.agreement
    if agreement is None or progress_of(job).verdict == "moves":
        return
    if conflicts(recorders_of(job)):
        return  # groups of one name are not one group
    ring = [split for split in agreement.splits if split.group in agreement.cycle and split.parties]
    if len(ring) < 2:
        yield from _apart(job, agreement)
        return
    ring.sort(key=lambda split: sum(len(ranks) for ranks, _ in split.parties))
    few, many = (sum(len(ranks) for ranks, _ in split.parties) for split in (ring[0], ring[-1]))
    # Of as many on each side, as where a recorder is missing, nothing tells who has left the order.
    whose = ring[:1] if few < many else ring
    culprits = sorted({rank for split in whose for ranks, _ in split.parties for rank in ranks})
    every = sorted({rank for split in ring for ranks, _ in split.parties for rank in ranks})
    culprits = next(filter(None, (out_of_order(job, split.group, every) for split in ring[::-1])), culprits)
    yield _crossed(job, ring[::-1], culprits, ring[0].parties[0][1], _shown(agreement), ring)


def _apart(job: HangJob, agreement: Agreement) -> Iterator[HangCause]:
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
        entry = others[0].parties[0][1] if others[0].parties else None
        yield _crossed(job, (split, *others), split.behind, entry, SEEN, [split])  # who is in which group is inferred
        return


def _crossed(
    job: HangJob,
    splits: Sequence[GroupSplit],
    culprits: Sequence[int],
    entry: Collective | None,
    sure: float,
    seen: Sequence[GroupSplit],
) -> HangCause:
    parties = (split.parties[0] for split in splits[:3] if split.parties)
    return blame(
        ORDER,
        sure,
        culprits,
        "ranks wait for each other in different process groups: "
        + ", ".join(f"{ranks_of(ranks)} in {collective_words(one)}" for ranks, one in parties),
        [line for split in seen[:MOST_PARTIES] for line in _seen(split)],
        at=_frame(job, culprits, entry),
        fix=CAUSES[ORDER].remedy("crossed"),
    )


def chains_end(job: HangJob) -> Iterator[HangCause]:
    """The ranks at which the chains of waits end, over all groups: those whose GPU does not end what their peers have
    ended, those that have not issued what others wait in, and those that left no dump. The latter two are told by
    their processes where these were seen."""
    agreement = job.agreement
    if agreement is None or agreement.first is None or agreement.cycle or progress_of(job).verdict == "moves":
        return
    if agreement.first.kind in ("operation", "shape", "dtype", "peer"):
        return  # what ranks disagree on is the end
    seen = {rank.rank for rank in job.ranks}
    suspects = [
        suspect
        for suspect in agreement.waits.suspects
        if (_is_on_gpu(job, suspect.rank) if suspect.why == "stuck" else suspect.rank not in seen)
    ]
    for why, cause in (("stuck", "gpu-stuck"), ("away", "rank-away"), ("unseen", "rank-died")):
        chain_ends = [suspect for suspect in suspects if suspect.why == why]
        if why == "unseen":  # of a dump that is there, and has lost that group, nothing follows
            chain_ends = [suspect for suspect in chain_ends if suspect.rank not in agreement.ranks]
        if not chain_ends or (
            why == "unseen" and (len(agreement.unread) > MOST_SILENT or len(chain_ends) < len(suspects))
        ):
            continue
        ranks = sorted(chain_end.rank for chain_end in chain_ends)
        entry = chain_ends[0].entry
        sure = _how_sure(agreement, chain_ends)
        # A send ends once NCCL's buffers hold it, whatever its receiver waits in. Of an exchange several are kept.
        messages = entry.point_to_point or entry.operation in TO_A_ROOT
        if why == "stuck" and (messages or (entry.operation in EXCHANGES and len(chain_ends) > 1)):
            sure = POSSIBLE
        seen_there = [
            Seen(f"flight recorder of rank {chain_end.rank}", _of_suspect(chain_end))
            for chain_end in chain_ends[:MOST_PARTIES]
        ] + [line for line in _seen(agreement.first) if why != "stuck"]
        if why == "away" and (told := since_their_last(job, ranks, seen_there)) is not None:
            yield told
            continue
        yield blame(cause, sure, ranks, _ending_words(why, ranks, chain_ends), seen_there, at=_frame(job, (), entry))
    halted = [chain_end for chain_end in agreement.waits.halted if chain_end.rank not in seen]
    if halted:
        ranks = sorted(chain_end.rank for chain_end in halted)
        entry = halted[0].entry
        yield blame(
            "rank-away",
            POSSIBLE,
            ranks,
            f"{who(ranks, 'has', 'have')} not come to {collective_words(entry, halted[0].description)}, though "
            "peers that wait in the same went on",
            [
                Seen(f"flight recorder of rank {chain_end.rank}", _of_suspect(chain_end))
                for chain_end in halted[:MOST_PARTIES]
            ],
            at=_frame(job, (), entry),
        )


def _is_on_gpu(job: HangJob, rank: int) -> bool:
    """Whether what a rank has not ended may run on its GPU. Over gloo a thread of the process ends it, and with it
    whatever the program has hung on it: that stands for a reason of the program's."""
    recorder = recorders_of(job).get(rank)
    return recorder is None or not recorder.backend or "ccl" in recorder.backend


MOST_SILENT = 2
"""Ranks without a dump of which death is the likelier reason: of more, dumps of some ranks only were given."""
SEVERAL = 3
"""Chains that end at one rank from which that is no accident of one group: our rule of thumb."""


def _how_sure(agreement: Agreement, chain_ends: Sequence[ChainEnd]) -> float:
    """By how many chains end there, and by what was not read."""
    sure = SEEN if all(chain_end.chains >= SEVERAL for chain_end in chain_ends) else LIKELY
    if chain_ends[0].why == "unseen":
        return BEST if sure == SEEN else POSSIBLE  # who lives leaves a dump, as a rule; or it was not given
    lost = any(suspect.why == "unseen" for suspect in agreement.waits.suspects)
    return less_sure(sure) if lost or any(chain_end.went_on for chain_end in chain_ends) else sure


def _ending_words(why: str, ranks: Sequence[int], chain_ends: Sequence[ChainEnd]) -> str:
    entry = collective_words(chain_ends[0].entry, chain_ends[0].description)
    if chain_ends[0].entry.point_to_point and why != "stuck":
        entry = f"the other end of {entry}"
    if why == "stuck":
        text = f"the {verb(ranks, 'GPU', 'GPUs')} of {ranks_of(ranks)} {verb(ranks, 'stands', 'stand')} in {entry}"
        text += ", in which the peers are further"
    else:
        silent = ", and left no dump" if why == "unseen" else " and waits in nothing" if len(ranks) == 1 else ""
        text = f"{who(ranks, 'has', 'have')} not come to {entry}{silent}"
    chains = max(chain_end.chains for chain_end in chain_ends)
    more = f" and {len(chain_ends) - 1} more" if len(chain_ends) > 1 else ""
    return text.replace(entry, entry + more) + (f"; the waits of {chains} ranks end there" if chains > 1 else "")


def _of_suspect(suspect: ChainEnd) -> str:
    what = {
        "stuck": "its GPU has not come as far as those of its peers in",
        "away": "has not issued what others wait in:",
    }.get(suspect.why, "was not read, and others wait in")
    text = f"{what} {_in_its_line(suspect.entry, suspect.description)}; chains of {suspect.chains} ranks end here"
    if suspect.why == "away" and suspect.last is not None:
        text += f"; the last that it has issued is {_in_its_line(suspect.last)}"
    return text


def _in_its_line(entry: Collective, description: str = "") -> str:
    line = line_of_program(entry)
    return collective_words(entry, description) + (f" at {line.file}:{line.line}" if line is not None else "")


def _shapes(job: HangJob, split: GroupSplit, sure: float) -> HangCause:
    small, entry = split.parties[-1]
    what = "types" if split.kind == "dtype" else "sizes"
    by_ddp = not entry.frames and bool(job.ranks) and _all_in_backward(job, split.parties)
    by_hook = not by_ddp and _all_by_hooks(job, split.parties)
    if not job.ranks and all(map(_begins_in_the_air, (other for _, other in split.parties))):
        sure = POSSIBLE  # of two parameters whose hooks have met, the line tells nothing
    cause = "rank-dependent-graph" if by_ddp or by_hook else "shape-mismatch"
    sure = SEEN if by_ddp else LIKELY if by_hook else sure  # why DDP's buckets differ, the recorder does not tell
    apart = not (by_ddp or by_hook) and _a_call_apart(job, split)
    if apart:
        cause, sure = "rank-divergent-decision", LIKELY  # which of them has left one out, the sizes do not tell
    elif not (by_ddp or by_hook or _differ_at_one_line(job, split)):
        # Of two calls the sizes differ as well, and no line tells whether these are one.
        cause, sure = (ORDER, LIKELY) if split.swapped else (cause, POSSIBLE)
    sent = split.kind == "dtype" or len({other.input_sizes for _, other in split.parties}) > 1
    return blame(
        cause,
        sure,
        small,
        f"ranks came to {entry.operation} #{split.sequence} of group {split.group} with different {what}: "
        + ", ".join(f"{ranks_of(ranks)} {_tensor(other, sent)}" for ranks, other in split.parties[:3])
        + ", of which one has followed the other there before: they are a call of this line apart" * apart
        + ", and each with what the other comes to next: the same calls in two orders" * (cause == ORDER),
        _seen(split),
        at=_frame(job, small, entry),
    )


def _differ_at_one_line(job: HangJob, split: GroupSplit) -> bool:
    """Whether it is known that it is one call: by its line or, where recorders keep none, by what ranks are in now, or
    since only the type differs of so many numbers as no two calls have by chance."""
    if all(_is_told(job, ranks, entry) for ranks, entry in split.parties):
        return True
    sizes = {entry.input_sizes for _, entry in split.parties}
    if len(sizes) == 1 and all(prod(each) >= NOT_BY_CHANCE for each in next(iter(sizes)) or ((),)):
        return True
    recorders = recorders_of(job)
    open_ones = [
        [one for one in recorders[ranks[0]].entries if one.state != "completed" and one.frames and one.input_sizes]
        for ranks, _ in split.parties
        if ranks[0] in recorders
    ]
    now = [entries[0] for entries in open_ones if entries]
    unlike = len({(entry.input_sizes, entry.dtypes) for entry in now}) > 1
    return unlike and len(now) == len(split.parties) and len(set(map(line_of_program, now))) == 1


NOT_BY_CHANCE = 64
"""Elements (our rule of thumb): counts, losses and flags have few, and any two of them may be of one size."""
OFTEN = 2
"""Times that two sizes have followed each other at a line, from which they do so as a rule (our rule of thumb)."""


def _a_call_apart(job: HangJob, split: GroupSplit) -> bool:
    """Whether the one party has come with what follows the other's at this line, in each round before: a call was left
    out there, as of a parameter without a gradient, and no tensor has another size."""
    (ranks, theirs), (_, own) = split.parties[0], split.parties[-1]
    recorder, line = recorders_of(job).get(ranks[0]), line_of_program(own)
    if recorder is None or line is None or split.kind != "shape":
        return False
    earlier = sorted(
        (entry.sequence, entry.input_sizes)
        for entry in recorder.entries
        if entry.group == split.group and entry.sequence < split.sequence and line_of_program(entry) == line
    )
    followed = Counter(pairwise(sizes for _, sizes in earlier))
    pair = theirs.input_sizes, own.input_sizes
    return theirs.input_sizes != own.input_sizes and max(followed[pair], followed[pair[::-1]]) >= OFTEN


def _all_in_backward(job: HangJob, parties: Sequence[tuple[Sequence[int], Collective]]) -> bool:
    """Whether ranks are in backward, all of them: what is called there, and when, is the framework's, by its graph.
    Without stacks: a call of autograd's own thread has no line of the program, where the recorder keeps lines."""
    numbers = {rank for ranks, _ in parties for rank in ranks}
    if involved := [rank for rank in job.ranks if rank.rank in numbers]:
        return all(map(_in_backward, involved))
    own = (recorder for rank, recorder in recorders_of(job).items() if rank in numbers)
    return not any(entry.frames for _, entry in parties) and all(any(e.frames for e in one.entries) for one in own)


def _all_by_hooks(job: HangJob, parties: Sequence[tuple[Sequence[int], Collective]]) -> bool:
    """Whether hooks of the program have started it in threads of autograd, one parameter after the other: there, no
    module is below their frames, and the main thread has called backward before the line in which it is."""
    if not all(map(_begins_in_the_air, (entry for _, entry in parties))):
        return False
    numbers = {rank for ranks, _ in parties for rank in ranks}
    involved = [rank for rank in job.ranks if rank.rank in numbers]
    return bool(involved) and all(any(map(_has_called_backward, _own_contexts(rank))) for rank in involved)


def _begins_in_the_air(entry: Collective) -> bool:
    """Whether neither a module nor a thread of Python is below the lines of the program that have started it: a thread
    of autograd begins with a hook."""
    frames = entry.frames
    return 0 < len(frames) < KEPT_FRAMES and all(short(frame) != "<module>" and is_user(frame) for frame in frames)


def _own_contexts(rank: Rank) -> Iterator[SourceContext]:
    """What the program says around the lines in which its main thread is."""
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    contexts = (source_at(rank, frame) for frame in (thread.frames if thread is not None else ()))
    yield from (context for context in contexts if context is not None)


def _has_called_backward(context: SourceContext) -> bool:
    return any(call.kind == "backward" and call.line <= context.line for call in context.calls)


def _in_backward(rank: Rank) -> bool:
    """By its stack; of one that is gone by the line that its recorder names."""
    if rank.place.kind == "backward" or (context := source_at(rank, rank.place.user_frame)) is None:
        return rank.place.kind == "backward"
    return any((call.kind, call.line) == ("backward", context.line) for call in context.calls)


def _other_calls(job: HangJob, split: GroupSplit) -> bool:
    """Whether the parties came from different lines of the program: sizes that differ are no fault of a tensor then."""
    return unlike_lines({line_of_program(entry) for ranks, entry in split.parties if _is_told(job, ranks, entry)})


def _is_told(job: HangJob, ranks: Sequence[int], entry: Collective) -> bool:
    """Whether it is known from which line of the program a call came, or that it came from none: of a recorder that
    keeps no lines that is so of what a rank is in, by its stack."""
    recorders = recorders_of(job)
    recorder = recorders.get(ranks[0]) if ranks else None
    if entry.frames or recorder is None or any(one.frames for one in recorder.entries if one.state == "completed"):
        return True
    if not job.ranks and any(one.frames for other in recorders.values() for one in other.entries):
        return True  # of one job all keep lines, or none
    in_backward = {rank.rank for rank in job.ranks if rank.place.kind == "backward"}
    return entry.state != "completed" and not in_backward.isdisjoint(ranks)


def _operations(job: HangJob, split: GroupSplit) -> Iterator[HangCause]:
    """Of one line, or each with what the other does next: it is the order; in one backward it is the graph. Else one
    may as well have gone another way, and the lines of the program tell more, where they are read."""
    small, entry = split.parties[-1]
    if not job.ranks and [len(ranks) for ranks, _ in split.parties] == [len(small)] * 2:
        small = tuple(sorted((*split.parties[0][0], *small)))  # of two halves dumps do not tell which left the way
    other_calls = _other_calls(job, split)
    # Where neither recorders nor stacks tell the lines, ranks may have gone different ways as well.
    known = all(line_of_program(entry) is not None for _, entry in split.parties)
    causes: tuple[tuple[str, float], ...] = ((ORDER, SEEN if known else POSSIBLE if job.ranks else LIKELY),)
    if not other_calls and (_all_in_backward(job, split.parties) or _all_by_hooks(job, split.parties)):
        causes = (("rank-dependent-graph", SEEN), (ORDER, HINT))
    elif other_calls and not split.swapped:
        causes = (("rank-divergent-decision", POSSIBLE), (ORDER, HINT))
        causes = (("rank0-only-collective", POSSIBLE), *causes) if tuple(small) == (0,) else causes
    for cause, sure in causes:
        yield blame(
            cause,
            sure,
            small,
            f"ranks came to #{split.sequence} of group {split.group} "
            + ("from different lines of the program: " if other_calls else "with different operations: ")
            + ", ".join(f"{ranks_of(ranks)} with {entry_words(other)}" for ranks, other in split.parties[:3]),
            _seen(split),
            at=_frame(job, small, entry),
        )


def _peers(job: HangJob, split: GroupSplit) -> HangCause:
    ranks, entry = split.parties[-1] if split.parties else ((), None)
    if len({other.operation for _, other in split.parties}) == 1:  # nobody does the other half
        ranks = tuple(sorted(rank for one, _ in split.parties for rank in one))
    return blame(
        "p2p-order",
        SEEN if split.matched else POSSIBLE,  # the other half may come yet, or have been there
        ranks,
        "send and recv do not pair: "
        + ", ".join(f"{ranks_of(one)} in {other.operation} with peer {other.peer}" for one, other in split.parties[:3]),
        _seen(split),
        at=_frame(job, ranks, entry),
    )


def _large_object(job: HangJob, split: GroupSplit) -> Iterator[HangCause]:
    """Everybody gathers a pickled object, and it is huge."""
    for ranks, entry in split.parties[:1]:
        size = max((prod(max(0, length) for length in shape) for shape in entry.input_sizes), default=0)
        pickled = any(name in kind.lower() for kind in entry.dtypes for name in ("uint8", "byte"))
        if pickled and entry.operation in ("all_gather", "gather", "broadcast") and size >= LARGE_OBJECT_BYTES:
            yield blame(
                "object-collective",
                SEEN,  # that it still moves, and does not stand, is not
                ranks,
                f"{who(ranks, 'moves', 'move')} a pickled object of {size} bytes in {entry_words(entry)}",
                _seen(split),
                at=_frame(job, ranks, entry),
            )


def _tensor(entry: Collective, sent: bool) -> str:
    """What a rank has given; where all have given alike, what it takes."""
    shapes = entry.input_sizes if sent else entry.output_sizes
    sizes = ", ".join("x".join(map(str, shape)) for shape in shapes[:3])
    return f"{entry.dtypes[0] if entry.dtypes else ''}[{sizes}]" + " to receive" * (not sent)


def _seen(split: GroupSplit) -> list[Seen]:
    recorder = "flight recorder of"
    lines = [Seen(f"{recorder} {ranks_of(ranks)}", entry_words(entry)) for ranks, entry in split.parties[:MOST_PARTIES]]
    if split.behind:
        behind = f"{who(split.behind, 'has', 'have')} not come to #{split.sequence} of {split.group}"
        lines.append(Seen("flight recorder", behind))
    elsewhere = split.elsewhere[:MOST_PARTIES]
    return lines + [Seen(f"{recorder} rank {rank}", f"is in {entry_words(entry)}") for rank, entry in elsewhere]


def _frame(job: HangJob, ranks: Sequence[int], entry: Collective | None) -> Frame | None:
    """The user's frame of an entry, else of the first of the ranks."""
    if entry is None or entry.frames:
        return entry.frames[0] if entry is not None else None
    by_rank: Mapping[int, Rank] = {rank.rank: rank for rank in job.ranks}
    return next((by_rank[rank].place.user_frame for rank in ranks if rank in by_rank), None)


RULES = (disagree, groups_crossed, chains_end)
