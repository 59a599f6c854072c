"""A job that torchrun has started again: what each attempt said, so that the last one's end is not looked for in what
the others have said before.

The command's whole output is one log. What had been said of it when the first process of an attempt was seen is where
that attempt begins: until a rank says its first word it imports for seconds.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from gpudoctor.run.end import AttemptSeen, RunEnded
from gpudoctor.run.kept import OF_RANKS, OUTPUT

MOST_TOLD = 3
"""Of the attempts before the last one, the last so many."""
FOLDER = "attempts"


def of_attempt(ended: RunEnded, number: int) -> RunEnded:
    """The run as if it had been that attempt alone."""
    return structs.replace(
        ended,
        attempts=tuple(each for each in ended.attempts if each.number <= number),
        ended=tuple(each for each in ended.ended if each.attempt in (number, None)),
        logs=tuple(_logs(ended, number)),
    )


def _logs(ended: RunEnded, number: int) -> Iterator[str]:
    part = _part(ended, number)
    if part:
        yield part
    for name in ended.logs:
        path = Path(name)
        if (match := OF_RANKS.fullmatch(path.name)) is None:
            if not part or path.parent.name:  # another node's, or all of it where it could not be cut
                yield name
        elif (int(match["start"] or 1) - 1) == number:
            yield name


def _part(ended: RunEnded, number: int) -> str:
    """The file with what the job said in that attempt, by its name in the folder; empty where that is not told."""
    begins = {0: 0, **{each.number: each.said for each in ended.attempts}}
    begin, end = begins.get(number), begins.get(number + 1)
    if not ended.folder or begin is None or (end is None and number < ended.attempts[-1].number):
        return ""
    name = f"{FOLDER}/{number + 1}-{OUTPUT}"
    with contextlib.suppress(OSError):
        text = Path(ended.folder, OUTPUT).read_bytes()[begin:end]
        place = Path(ended.folder, name)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.touch(mode=0o600)
        place.write_bytes(text)
        return name
    return ""


def numbers(attempts: Sequence[AttemptSeen]) -> list[int]:
    """Of the attempts, the last one last."""
    return [0, *(each.number for each in attempts)] if attempts else []
