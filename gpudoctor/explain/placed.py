"""Where ranks waited of which a watchdog names an operation and no line, where the program has one call that makes it.

torch tells the line by its flight recorder. Without it (TORCH_FR_BUFFER_SIZE=0, releases before 2.5) there are the
operation and its size, which the text of the program may tell as well.
"""

from itertools import product
from math import prod

from msgspec import structs

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts
from gpudoctor.explain.program import Stood, UserProgram
from gpudoctor.explain.waits import DEFAULT_GROUP, Wait, named

PROGRAM = "elastic-program"
MOST_CHOICES = 8
MOST_SAID = 16
RECKONED = "A line that the log does not name is that of the only call of the program that fits"


def placed(waits: list[Wait], facts: Facts, program: UserProgram | None) -> list[list[Wait]]:
    """The waits, each with a line of the calls that fit: once for each choice of these; as they are where it is not
    known of all of them."""
    files = _programs(facts)
    bare = [wait for wait in waits if not (wait.frames or wait.where or wait.function or wait.in_backward)]
    if program is None or len(files) != 1 or not bare or any(wait.group not in ("", DEFAULT_GROUP) for wait in waits):
        return [waits]  # a group's calls are not told from those of all ranks
    (file,) = files
    said = [line.text for line in facts.said_last.values()][:MOST_SAID]
    ways = {_alike(wait): tuple(program.ways(file, said, wait.operation, wait.elements)) for wait in bare}
    # One that others give more elements to is no call of one element: that is a barrier.
    larger = {each[0] for (_, elements), each in ways.items() if len(each) == 1 and elements != 1}
    for alike, each in ways.items():
        ways[alike] = tuple(way for way in each if alike[1] != 1 or way not in larger) or each
    if not 0 < prod(map(len, ways.values())) <= MOST_CHOICES:
        return [waits]
    choices = [dict(zip(ways, choice, strict=True)) for choice in product(*ways.values())]
    return [[_at(wait, choice[_alike(wait)]) if wait in bare else wait for wait in waits] for choice in choices]


def surely_placed(waits: list[Wait], facts: Facts, program: UserProgram | None) -> list[Wait]:
    """With their lines, where there is one choice."""
    choices = placed(waits, facts, program)
    return choices[0] if len(choices) == 1 else waits


def reckoned(candidate: Candidate) -> Candidate:
    """With a word about where its lines come from."""
    return structs.replace(candidate, summary=f"{candidate.summary}. {RECKONED}")


def _programs(facts: Facts) -> set[str]:
    """As torchrun names it, or as the stacks of exceptions begin."""
    named_by = {event.values["program"] for event in facts.events if event.symptom.id == PROGRAM}
    own = (frame for told in facts.tracebacks for raised in told.traceback.raised for frame in raised.own[-1:])
    return named_by or {frame.file for frame in own if frame.function == "<module>"}


def _alike(wait: Wait) -> tuple[str, int | None]:
    return wait.operation, wait.elements


def _at(wait: Wait, way: Stood) -> Wait:
    at = way.frames[0]
    return structs.replace(
        wait,
        operation=named(way.operation) or wait.operation,
        function=way.operation,
        where=f"{at.file}:{at.line}" if not way.in_backward else "",
        frames=way.frames if not way.in_backward else (),
        in_backward=way.in_backward,
        backward=way.frames if way.in_backward else (),
        is_called=bool(way.operation),
    )
