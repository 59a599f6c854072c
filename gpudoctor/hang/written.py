"""What a function was given as it is written in the program: no two ranks that come there find it otherwise."""

import ast

from gpudoctor.hang.conditions import name_of, parsed
from gpudoctor.hang.job import Rank
from gpudoctor.hang.relation import source_at
from gpudoctor.snapshot.evidence import Frame


def was_written(rank: Rank, frame: Frame, condition: str) -> bool:
    """Whether a condition asks for nothing but what its function was given as it is written in the program:
    `publish("round")` leads to `if event == "round"` on every rank that comes there."""
    tree = parsed(condition)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree is not None else set()
    return bool(names) and names <= _written(rank, frame)


def _written(rank: Rank, frame: Frame) -> set[str]:
    """The parameters of a frame's function for which its caller, or the caller of that, has written a constant."""
    frames = rank.place.user_frames
    source = source_at(rank, frame)
    at = frames.index(frame) + 1 if frame in frames else len(frames)
    function = next((around for around in source.enclosing if around.kind == "function"), None) if source else None
    caller = source_at(rank, frames[at]) if at < len(frames) else None
    if function is None or caller is None:
        return set()
    calls = [call for call in _calls_in(caller.text) if name_of(call) == function.text]
    if len(calls) != 1:
        return set()
    call = calls[0]
    names = function.gives[1:] if isinstance(call.func, ast.Attribute) and "." in frame.function else function.gives
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if not any(isinstance(argument, ast.Starred) for argument in call.args):
        given |= dict(zip(names, call.args, strict=False))
    constants = {name for name, value in given.items() if isinstance(value, ast.Constant)}
    passed = {name: value.id for name, value in given.items() if isinstance(value, ast.Name)}
    known = _written(rank, frames[at]) if passed else set()
    return (constants | {name for name, own in passed.items() if own in known}) & {*function.gives}


def handed_on(rank: Rank, frame: Frame) -> Frame | None:
    """The line that has given a frame's function away, to be called as often as it is found good there:
    `optimizer.step(closure)`, `retry(lambda: ...)`."""
    frames = rank.place.user_frames
    at = frames.index(frame) + 1 if frame in frames else len(frames)
    caller = source_at(rank, frames[at]) if at < len(frames) else None
    name = frame.function.rpartition(".")[2]
    for call in _calls_in(caller.text) if caller is not None else ():
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            own = isinstance(given, ast.Name | ast.Attribute) and name_of(given) == name
            if own or (isinstance(given, ast.Lambda) and name == "<lambda>"):
                return frames[at]
    return None


def _calls_in(text: str) -> list[ast.Call]:
    """The calls of a line, also of the head of a compound statement."""
    for part in (text, text.partition(" ")[2], text.partition(" in ")[2]):
        try:
            return [node for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Call)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return []
