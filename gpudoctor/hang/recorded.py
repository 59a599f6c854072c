"""Where a rank's GPU stands, by its flight recorder: at another line than its Python, which runs ahead.

A collective of NCCL is only put on a stream, and Python goes on, until something asks for a value: all ranks may wait
at one `loss.item()`, each for another collective. What decides are the lines from which these were started.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gpudoctor.hang.gpus import uses_gpu
from gpudoctor.hang.job import Rank
from gpudoctor.hang.progress import same_place, waits
from gpudoctor.hang.recorders import Agreement, GroupSplit
from gpudoctor.hang.relation import source_at
from gpudoctor.knowledge.places import Kind, Place, is_user
from gpudoctor.snapshot.evidence import Collective, Frame, ProcessEvidence, Recorder


def at_its_gpu(rank: Rank, agreement: Agreement) -> Rank:
    """A rank that waits, at the collective that keeps it; as it is where its recorder was not asked now."""
    recorder = rank.evidence.recorder
    if recorder is None or recorder.written_at > 0 or not uses_gpu(rank.evidence, rank.node):
        return rank
    if not waits(rank) or not same_place(rank.first_place, rank.place):
        return rank
    entry = kept_by(recorder, agreement.first) or agreement.current.get(rank.rank)
    place = placed(rank, entry) if entry is not None else None
    return rank if place is None else replace(rank, place=place, first_place=place)


def kept_by(recorder: Recorder, split: GroupSplit | None) -> Collective | None:
    """What it came with to the collective on which ranks do not agree: it need not know that it is not over."""
    if split is None:
        return None
    own = (
        entry
        for entry in recorder.entries
        if entry.sequence == split.sequence
        and not entry.point_to_point
        and (split.group == entry.group or split.group.startswith(f"{entry.group} of ranks "))
    )
    return next(own, None)


def in_its_line(process: ProcessEvidence, place: Place) -> ProcessEvidence:
    """A process that was asked now and whose recorder keeps no lines, as torch's worker server tells it: the one
    collective that it has open is called in the line of the program where its stack stands in a collective."""
    recorder = process.recorder
    if recorder is None or recorder.written_at > 0 or place.kind != "collective" or not place.user_frames:
        return process
    open_ones = [number for number, entry in enumerate(recorder.entries) if entry.state != "completed"]
    if len(open_ones) != 1 or any(entry.frames for entry in recorder.entries):
        return process
    entries = list(recorder.entries)
    entry = entries[open_ones[0]]
    if entry.point_to_point:
        return process
    entries[open_ones[0]] = replace(entry, frames=place.user_frames)
    return replace(process, recorder=replace(recorder, entries=tuple(entries)))


def placed(rank: Rank, entry: Collective) -> Place | None:
    """Where a rank is that waits for what an entry started."""
    frames = tuple(filter(is_user, entry.frames))
    kind: Kind = "point-to-point" if entry.point_to_point else "collective"
    if frames:
        return rank.place._replace(
            kind=kind, operation=entry.operation, library_frame=None, user_frame=frames[0], user_frames=frames
        )
    if entry.point_to_point or entry.frames:
        return None
    recorder = rank.evidence.recorder
    if recorder is not None and not any(one.frames for one in recorder.entries):
        return None  # it keeps no lines of anything
    # Started by a hook of DDP or FSDP in a thread of autograd, which has no stack of the program's.
    backward = next(backwards(rank), None)
    if backward is None:
        return None
    return rank.place._replace(
        kind="backward", operation="backward", library_frame=None, user_frame=backward[0], user_frames=backward
    )


def backwards(rank: Rank) -> Iterator[tuple[Frame, ...]]:
    """The stacks, as frames of the program, in which a rank calls backward in a function that it is in."""
    for number, frame in enumerate(rank.place.user_frames):
        context = source_at(rank, frame)
        calls = [call for call in context.calls if call.kind == "backward"] if context is not None else []
        if len(calls) == 1:
            yield (replace(frame, line=calls[0].line), *rank.place.user_frames[number + 1 :])
