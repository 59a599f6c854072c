"""What a rank asks for again and again and cannot come: a task has failed, or a thread that was to set it is gone."""

import re

from gpudoctor.hang.doing import own_threads, short
from gpudoctor.hang.job import Rank
from gpudoctor.hang.relation import loop_around, source_at, tries_again
from gpudoctor.hang.report import Seen
from gpudoctor.hang.variables import held_at

FAILED = "failed: "
"""As `read.job.attributes` tells it of a task."""


def never_comes(rank: Rank) -> tuple[str, Seen] | None:
    """Why what the loop around its line asks for will not come, where that is seen, and by what."""
    frame = rank.place.user_frame
    context = source_at(rank, frame)
    loop = loop_around(context)
    if frame is None or context is None or loop is None:
        return None
    for name, value in held_at(rank, frame).items():
        if value.startswith(FAILED) and (_asks_for(name, loop.text) or tries_again(rank)):
            error = value.removeprefix(FAILED)
            return (
                f"a task of `{name}` has failed with {error}",
                Seen(f"variables of {frame.function}", f"{name}: {value}"),
            )
    for own in context.by_threads:
        there = any(short(each) == own.text for thread in own_threads(rank) for each in thread.frames)
        if _asks_for(own.kind, loop.text) and not there:
            return (
                f"`{own.kind}` is set by {own.text} (line {own.line}), in which no thread of it is any more: it has "
                "failed there, or was not started",
                Seen(f"{context.file}:{own.line}", f"{own.kind} = ... in {own.text}, handed to a thread"),
            )
    return None


def _asks_for(name: str, condition: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", condition) is not None
