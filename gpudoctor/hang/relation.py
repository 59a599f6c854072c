"""How two ranks lie to each other in the program: where their stacks part, and what the source says of both lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from gpudoctor.hang.counting import counts, only_counts
from gpudoctor.hang.job import Rank
from gpudoctor.hang.rank_conditions import admits, asks_for_world, condition_of, is_by_rank
from gpudoctor.knowledge.place_markers import drives_training, is_program, normal
from gpudoctor.knowledge.places import main_thread
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext

Relation = Literal["past the loop", "later in the loop", "earlier", "later", "other branch", "same line", "unknown"]
"""Of the second rank to the first. "past the loop": it has left a loop that the first is in. "later": in the same
function, and no loop that is around the one alone tells. "unknown": no line of theirs can be compared."""

LOOPS = ("for", "while")
_ASKS_FOR_FILE = lazy_re(r"\b(?:l?exists|is_?file|is_?dir|listdir|scandir|i?glob|iterdir|stat|getsize)\(")


class Fork(NamedTuple):
    """Where the stacks of two ranks part: the last function that both are in, or the first frames that differ."""

    one: Frame
    other: Frame
    one_source: SourceContext | None
    other_source: SourceContext | None


def source_at(rank: Rank, frame: Frame | None) -> SourceContext | None:
    """What the program says around one of its frames, or a framework around one of its loop's. A context is found by
    its line, and its file's name where the path was resolved."""
    if frame is None:
        return None
    name = frame.file.rpartition("/")[2]
    for source in rank.evidence.sources:
        if source.line == frame.line and (source.file == frame.file or source.file.rpartition("/")[2] == name):
            return source if _leads_apart(source) or frame in rank.place.user_frames else None
    return None


def _leads_apart(source: SourceContext) -> bool:
    """Whether loops and conditions of a file may lead ranks apart: of other libraries only those on the rank do."""
    return drives_training(source.file) or (is_program(source.file) and not source.installed)


def own_sources(rank: Rank) -> list[SourceContext]:
    """What was read of its program, and of a framework's loop."""
    own = {(frame.file, frame.line) for frame in rank.place.user_frames}
    sources = rank.evidence.sources
    return [source for source in sources if _leads_apart(source) or (source.file, source.line) in own]


def fork_of(one: Rank, other: Rank) -> Fork | None:
    """The first frames, from the outermost, in which two ranks differ; None where they do not, or one has none. Of a
    framework only where the text of both places was read."""
    frames = parting(one, other)
    if frames is None:
        return None
    sources = source_at(one, frames[0]), source_at(other, frames[1])
    return Fork(*frames, *sources) if frames[0] in one.place.user_frames or None not in sources else None


def parting(one: Rank, other: Rank) -> tuple[Frame, Frame] | None:
    """The last function that two ranks are both in, and the line of each there. Where the program's own lines do not
    part, the loop is a framework's (`Trainer.train`), and its frames tell."""
    common: Frame | None = None
    for mine, theirs in zip(*_from_program(one.place.user_frames, other.place.user_frames), strict=False):
        if mine.file != theirs.file or not same_function(mine.function, theirs.function):
            break
        if mine.line != theirs.line:
            return mine, theirs
        common = mine
    if common is None:
        return None
    for mine, theirs in zip(reversed(_inside(one, common)), reversed(_inside(other, common)), strict=False):
        if (mine.file, mine.function) != (theirs.file, theirs.function):
            return None
        if mine.line != theirs.line:
            return mine, theirs
    return None


def _from_program(one: Sequence[Frame], other: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Two stacks from the program's own file inwards: one rank may be started below something else, as a debugger; or
    from the function that one of them has called in a thread, and the other in its main one."""
    mine, theirs = [*reversed(one)], [*reversed(other)]
    files = [frame.file if frame.function == "<module>" else "" for frame in theirs]
    for at, frame in enumerate(mine):
        if frame.function == "<module>" and frame.file in files:
            return mine[at:], theirs[files.index(frame.file) :]
    for short, long in ((mine, theirs), (theirs, mine)):
        first = short[0] if short else None
        same = (first and first.file == each.file and same_function(first.function, each.function) for each in long)
        del long[: next((at for at, begins in enumerate(same) if begins), 0)]
    return mine, theirs


def _inside(rank: Rank, frame: Frame) -> tuple[Frame, ...]:
    """The Python frames that a line of its program has called, innermost first."""
    thread = main_thread(rank.evidence.samples[-1], rank.thread) if rank.evidence.samples else None
    frames = [python for python in thread.frames if not python.native] if thread is not None else []
    frames = frames or [*rank.place.user_frames]  # of one that is gone a recorder or a log tells these
    return tuple(frames[: frames.index(frame)]) if frame in frames else ()


def told_frames(rank: Rank) -> list[tuple[Frame, SourceContext]]:
    """Its program's frames, and those of libraries that have called them, innermost first, with what is said there. A
    collective that a library makes itself for some ranks, it makes elsewhere for the others: `main_process_first`."""
    own = rank.place.user_frames
    read = {(source.file, source.line): source for source in rank.evidence.sources}
    inside = _inside(rank, own[-1]) if own else ()
    first = next((number for number, frame in enumerate(inside) if frame in own), len(inside))
    every = (*inside[first:], *own[-1:])
    told = ((each, source_at(rank, each) if each in own else read.get((each.file, each.line))) for each in every)
    return [(frame, source) for frame, source in told if source is not None]


def outside_backward(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Of frames, innermost first, those that autograd's engine has not called: what the graph has led to there, no loop
    and no condition around those lines tells."""
    engine = next((number for number, frame in enumerate(frames) if _is_engine(frame)), -1)
    return frames[engine + 1 :]


def _is_engine(frame: Frame) -> bool:
    return frame.function == "_engine_run_backward" and normal(frame.file).endswith("torch/autograd/graph.py")


def called_from(rank: Rank, frame: Frame) -> list[Frame]:
    """The program's frames that a line has called, its own or a framework's, innermost first."""
    own = rank.place.user_frames
    if frame in own:
        return list(own[: own.index(frame)])
    inner = _inside(rank, frame)
    return [each for each in own if each in inner]


def frames_within(rank: Rank, frame: Frame) -> tuple[Frame, ...]:
    """A frame and those that it has called, innermost first."""
    return (*_inside(rank, frame), frame)


def same_function(one: str, other: str) -> bool:
    """Whether two names may be of one function: stacks of processes name its class, those of recorders do not."""
    return one == other or (("." in one) != ("." in other) and one.rpartition(".")[2] == other.rpartition(".")[2])


def relation(one: Rank, other: Rank) -> Relation:
    """Where the second rank is, seen from the first."""
    fork = fork_of(one, other)
    if fork is None:
        if other.place.kind == "exit" and one.place.kind != "exit":
            return "past the loop"
        same = one.place.user_frame is not None and one.place.user_frame == other.place.user_frame
        return "same line" if same else "unknown"
    here, there = fork.one_source, fork.other_source
    forward = fork.other.line > fork.one.line
    if here is None:
        return "later" if forward else "earlier"
    own_loops = {enclosing.line for enclosing in here.enclosing if enclosing.kind in LOOPS}
    their_loops = (
        {enclosing.line for enclosing in there.enclosing if enclosing.kind in LOOPS} if there is not None else None
    )
    if their_loops is None:
        return "later" if forward else "earlier"
    if there is not None and branches_part(here, there):
        return "other branch"
    if own_loops - their_loops or (forward and _inner_loop(one, fork) is not None):
        return "past the loop" if forward else "earlier"
    if own_loops & their_loops:
        # Who is above that line is in the next round, and has come through what is called there.
        come_through = not forward and _inner_loop(one, fork) is not None
        return "past the loop" if come_through else "later in the loop" if forward else "earlier"
    return "later" if forward else "earlier"


def passed_loop(one: Rank, other: Rank) -> SourceContext | None:
    """What the program says around the loop that the second rank is past, seen from the first."""
    fork = fork_of(one, other)
    if fork is None or fork.one_source is None:
        return None
    return _inner_loop(one, fork) or fork.one_source


def _inner_loop(one: Rank, fork: Fork) -> SourceContext | None:
    """The outermost loop in the functions that a rank has called from where stacks part: who stands further down there,
    in a call of every step, has come to the end of it. Not of one that yields: who has got something left it there."""
    if fork.one_source is None or fork.other_source is None:
        return None
    if guard_apart(fork.one_source, fork.other_source) is not None:  # who has found it otherwise calls nothing there
        return None
    own = {enclosing.line for enclosing in fork.one_source.enclosing if enclosing.kind in LOOPS}
    if own - {enclosing.line for enclosing in fork.other_source.enclosing if enclosing.kind in LOOPS}:
        return None
    caller = fork.one
    for frame in reversed(outside_backward(_inside(one, fork.one))):
        context = source_at(one, frame)
        loop = loop_around(context)
        # What a framework's own file takes from its generator, nobody gets who is in the program again.
        if loop is not None and (not loop.gives or (caller.file == frame.file and not is_program(frame.file))):
            return context
        caller = frame
    return None


def branches_part(one: SourceContext, other: SourceContext) -> bool:
    """Whether two lines lie in different branches of one `if`: the condition's line is the same, "else" is not."""
    mine = {enclosing.line: enclosing for enclosing in one.enclosing if enclosing.kind in ("if", "elif", "else")}
    theirs = {enclosing.line: enclosing for enclosing in other.enclosing if enclosing.kind in ("if", "elif", "else")}
    for line, each in mine.items():
        other_branch = theirs.get(line)
        if other_branch is not None and (each.kind == "else") is not (other_branch.kind == "else"):
            return True
    return False


class Guard(NamedTuple):
    """A condition on the rank around a call of the program."""

    statement: Enclosing
    source: SourceContext
    frame: Frame


def guards_of(rank: Rank) -> Iterator[Guard]:
    """Conditions on the rank around a rank's frames, innermost first, outwards through its callers; also those by which
    other ranks have left the function, or gone round its loop, before the line."""
    for frame, context in told_frames(rank):
        if frame.function.rpartition(".")[2] in context.handlers:
            return  # a signal has called it, wherever the rank was
        for statement in context.enclosing:
            if statement.kind in ("if", "elif", "else") and is_by_rank(statement):
                yield Guard(statement, context, frame)
        for leaves in context.exits:
            if leaves.kind in ("return", "continue") and leaves.asks and leaves.line < context.line:
                yield Guard(Enclosing("else", leaves.line, leaves.text, leaves.asks), context, frame)
        if remembers(context) is not None:
            return  # whoever asks first comes here, from another line too


def is_kept_out(rank: Rank) -> bool:
    """Whether a condition on its number keeps a rank from where it is said to stand: then it stands elsewhere."""
    every = ((guard.statement, condition_of(guard.statement)) for guard in guards_of(rank))
    return any(admits(statement, number_in(asks, rank)) is False for statement, asks in every)


def remembers(context: SourceContext | None) -> Enclosing | None:
    """What is above the function of a line and keeps its result: who has called it so before does not come there."""
    around = context.enclosing if context is not None else ()
    return next((statement for statement in around if statement.kind == "cache"), None)


def passes_by(context: SourceContext, *, further_out: bool = False) -> tuple[Enclosing, ...]:
    """Statements that leave the loop around a line, or go round it, for a reason that may differ from rank to rank:
    not those that count steps, nor the end of a function. `further_out`: also those of the loops around that one."""
    ends = loop_around(context) is None
    return tuple(
        way
        for way in (*context.exits, *(_of_loops(context) if further_out else ()))
        if way.kind in ("continue", "pass")
        or not (way.kind == "caught" or counts(way.text) or (ends and not way.text and way.line > context.line))
    )


def _of_loops(context: SourceContext) -> list[Enclosing]:
    """What leaves the loops further out, without what leaves the function above them."""
    first = min((around.line for around in context.enclosing if around.kind in LOOPS), default=0)
    return [way for way in context.outer_exits if way.line > first]


def leaves_before(context: SourceContext | None, line: int) -> list[Enclosing]:
    """What leaves the function of a line above it, in its loop or above all of them."""
    if context is None:
        return []
    return [way for way in (*context.exits, *context.outer_exits) if way.kind == "return" and way.line < line]


def goes_round(context: SourceContext, rank: Rank) -> list[Enclosing]:
    """What leads a rank past a line in the loop, and on to the next round. Where it waits in the call itself, and not
    for its GPU, that is above the line, and no exception that is caught in a `try` which the line is not in."""
    ways = [each for each in passes_by(context) if each.kind in ("continue", "pass")]
    if rank.place.kind == "cuda sync" or not rank.place.operation or context.line <= 0:
        return ways
    guarded = any(around.kind == "try" for around in context.enclosing)
    withs = {around.line for around in context.enclosing if around.kind == "with"}  # contextlib.suppress
    return [
        each
        for each in ways
        if (each.kind == "pass" and (each.line in withs or (guarded and each.line > context.line)))
        or (each.kind == "continue" and each.line < context.line and not only_counts(each.text))
    ]


def caught_around(context: SourceContext | None) -> Enclosing | None:
    """The handler around the loop of a line in which an exception ends unseen."""
    return next((leaves for leaves in context.exits if leaves.kind == "caught"), None) if context is not None else None


COUNTED = lazy_re(r" in range\((?:[\d_]+|[A-Z][A-Z_\d]*)\)$")
"""A loop with as many rounds on every rank."""
OWN_NUMBER = lazy_re(
    r" in range\((?![\d_]+\)|[A-Z][A-Z_\d]*\))(?!.*(?i:\blen\(|step|batch|iter|epoch|loader|num_|max_))"
)
"""One with as many rounds as a rank has found for itself, by a name that is not of batches."""


def loop_around(context: SourceContext | None) -> Enclosing | None:
    """The innermost loop around a line."""
    if context is None:
        return None
    return next((enclosing for enclosing in context.enclosing if enclosing.kind in LOOPS), None)


def awaits_file(rank: Rank) -> bool:
    """Whether it asks again and again whether a file has come, and sleeps in between, at one line in both looks."""
    loop = loop_around(source_at(rank, rank.place.user_frame))
    return (
        rank.place.kind == "sleep"
        and rank.first_place == rank.place
        and loop is not None
        and loop.kind == "while"
        and _ASKS_FOR_FILE.search(loop.text) is not None
    )


def tries_again(rank: Rank) -> bool:
    """Whether it sleeps in both looks in the handler of what it has tried, inside of a loop that tries it again."""
    context = source_at(rank, rank.place.user_frame)
    if rank.place.kind != "sleep" or rank.first_place != rank.place or context is None:
        return False
    around = [enclosing.kind for enclosing in context.enclosing if enclosing.kind in ("except", "function", *LOOPS)]
    return around[:1] == ["except"] and around[1:2] != ["function"] and len(around) > 1


def is_within(rank: Rank, context: SourceContext | None, loop: Enclosing) -> bool:
    """Whether a rank stands in the loop around a line, or in what that has called."""
    sources = (source_at(rank, frame) for frame in rank.place.user_frames)
    return context is not None and any(
        source is not None and source.file == context.file and loop in source.enclosing for source in sources
    )


def own_guard(context: SourceContext | None) -> Enclosing | None:
    """The innermost condition around a line, inside its loop, that two ranks of a job may find differently."""
    if context is None:
        return None
    for enclosing in context.enclosing:
        if enclosing.kind in ("for", "while", "function"):
            return None
        if enclosing.kind == "except" or (
            enclosing.kind in ("if", "elif", "else") and not asks_for_world(enclosing.text)
        ):
            return enclosing
    return None


def guard_apart(one: SourceContext | None, other: SourceContext | None) -> Enclosing | None:
    """The same where it is not around the other line too: what is around both, both have found alike."""
    guard = own_guard(one)
    return None if guard is not None and other is not None and guard in other.enclosing else guard


def waits_with_a_root(rank: Rank) -> bool:
    """Whether a rank waits in a collective that may end on others before all have come, or for the GPU behind one."""
    if rank.place.operation in WITH_A_ROOT:
        return True
    context = source_at(rank, rank.place.user_frame)
    if rank.place.kind != "cuda sync" or context is None:
        return False
    last = max((call for call in context.calls if call.line < context.line), key=lambda call: call.line, default=None)
    return last is not None and last.kind in WITH_A_ROOT


WITH_A_ROOT = ("gather", "gather_object", "reduce", "broadcast", "broadcast_object_list", "scatter")


def never_meet(one: Rank, other: Rank) -> bool:
    """Whether two ranks have called different collectives of one group, as far as the lines name any."""
    if (
        one.place.kind != "collective"
        or other.place.kind != "collective"
        or ""
        in (
            one.place.operation,
            other.place.operation,
        )
    ):
        return False
    contexts = [source_at(rank, rank.place.user_frame) for rank in (one, other)]
    groups = {group_argument(context.text) for context in contexts if context is not None}
    return None not in contexts and len(groups) == 1 and one.place.operation != other.place.operation


def group_argument(text: str) -> str:
    """What a call names as its process group: "tensor_parallel" of `dist.all_reduce(x, group=tensor_parallel)`."""
    argument = re.search(r"\b(?:group|process_group)\s*=\s*([\w.\[\]()]+?)\s*[,)]", text)
    return argument[1] if argument else ""


def members_of(contexts: Iterable[SourceContext], name: str) -> frozenset[int]:
    """The ranks of a process group, where the program writes them down; empty where it computes them."""
    own = name.rpartition(".")[2]
    for context in contexts:
        for group in context.groups:
            if own and group.startswith(f"{own}="):
                return frozenset(map(int, group.partition("=")[2].split(",")))
    return frozenset()


KEEPS_GRADIENTS = lazy_re(r"no_sync|accumulate|gradient_sync|grad_sync")
"""Contexts in which DDP does not exchange gradients: torch's no_sync, accelerate's accumulate, ..."""


def keeps_gradients(context: SourceContext | None) -> Enclosing | None:
    """The `with` around a backward by which a rank may keep its gradients to itself."""
    around = context.enclosing if context is not None else ()
    return next(
        (enclosing for enclosing in around if enclosing.kind == "with" and KEEPS_GRADIENTS.search(enclosing.text)), None
    )


def number_in(condition: str, rank: Rank) -> int:
    """The number that a condition asks for: the local rank, or the rank."""
    return rank.rank if rank.local_rank is None or "local" not in condition.lower() else rank.local_rank
