"""What load_state_dict lists as missing and unexpected, read together: whether a wrapper's prefix is the difference.

torch writes three lines: for which model, the names that it misses, those that it does not know (nn/modules/module.py).
People paste all of them, or one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from gpudoctor.explain.candidate import Candidate, of_symptom
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event
from gpudoctor.knowledge.wrappers import ANYWHERE, IN_FRONT
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import LIKELY, PROVED

STATE_DICTS = ("state-dict-mismatch", "state-dict-keys")
"""Symptoms of it: causes/checkpoint_mismatch.py."""
LISTED = lazy_re(
    r'(?P<kind>Missing|Unexpected) key\(s\) in state_dict: (?P<names>"[^"\n]{1,300}"(?:, "[^"\n]{1,300}")*)'
)
LISTED_ONCE = lazy_re(
    r'(?P<kind>unexpected) key "(?P<names>[^"\n]{1,300})" in state_dict|'
    r'(?P<kind2>missing) keys in state_dict: "(?P<names2>[^"\n]{1,4000})"'
)
"""torch up to 0.3: the first name that is unexpected, as a KeyError; or the set of all that are missing."""
NAME_OF_SET = lazy_re(r"[A-Za-z_][\w.]{0,299}")
NAME = lazy_re(r'"([^"\n]{1,300})"')
NEAR = 3
"""Lines in which torch writes what belongs to one model."""
MOST_SHOWN = 3
"""Names that a fix shows (our choice)."""
MIXED = 200
"""The same where a rank is told, and others write between (our own bound)."""
WRAPPERS = {**ANYWHERE, **IN_FRONT}


class Keys(Struct):
    """What one call of load_state_dict says."""

    events: list[Event]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


class Wrapped(NamedTuple):
    """On which side the wrapper is."""

    prefix: str
    of_model: bool
    proved: bool
    """Both sides are told, and a name of one is that of the other behind the prefix."""


def of_state_dicts(events: Iterable[Event], frames: Mapping[int, Line]) -> list[Candidate]:
    """One candidate for each call that failed."""
    return [_candidate(keys, frames) for keys in _calls(events)]


def _calls(events: Iterable[Event]) -> Iterator[Keys]:
    """The lines of one rank that follow each other; those of several ranks may be mixed."""
    calls: list[Keys] = []
    current: dict[tuple[str, int | None], Keys] = {}
    for event in events:
        if event.symptom.id not in STATE_DICTS:
            continue
        who = event.at.file, event.rank
        keys = current.get(who)
        if keys is None or event.symptom.id == STATE_DICTS[0] or not _follows(keys.events[-1], event):
            keys = current[who] = Keys([])
            calls.append(keys)
        keys.events.append(event)
    return map(_read, calls)


def _follows(last: Event, event: Event) -> bool:
    return 0 <= event.at.line - last.at.line <= (NEAR if event.rank is None else MIXED)


def _read(keys: Keys) -> Keys:
    texts = [line.text for event in keys.events for line in (event.at, *event.after)]
    by_kind: dict[str, dict[str, None]] = {"Missing": {}, "Unexpected": {}}
    for listed in (match for text in texts for match in LISTED.finditer(text)):
        by_kind[listed["kind"]].update(dict.fromkeys(NAME.findall(listed["names"])))
    for listed in (match for text in texts for match in LISTED_ONCE.finditer(text)):
        kind, names = listed["kind"] or listed["kind2"], listed["names"] or listed["names2"]
        by_kind[kind.capitalize()].update(dict.fromkeys(NAME_OF_SET.findall(names)))
    return Keys(keys.events, missing=tuple(by_kind["Missing"]), unexpected=tuple(by_kind["Unexpected"]))


def _candidate(keys: Keys, frames: Mapping[int, Line]) -> Candidate:
    first, *others = keys.events
    alone = of_symptom(first, standing="cause")
    lines_told = dict.fromkeys((*alone.evidence, *(line for other in others for line in (other.at, *other.after))))
    frame = next((frames[id(event)] for event in keys.events if id(event) in frames), None)
    evidence = (*lines_told, frame) if frame is not None else tuple(lines_told)
    wrapped = wrapper(keys.missing, keys.unexpected)
    if wrapped is None and keys.unexpected and not keys.missing and first.symptom.id == STATE_DICTS[0]:
        shown = ", ".join(keys.unexpected[:MOST_SHOWN]) + (", ..." if len(keys.unexpected) > MOST_SHOWN else "")
        return structs.replace(
            alone, evidence=evidence, variant="more-in-file", values={**alone.values, "names": shown}
        )
    if wrapped is None:
        return structs.replace(alone, evidence=evidence)
    variant = ("wrapped-model" if wrapped.of_model else "wrapped-file") if wrapped.prefix == "module." else "prefix"
    name = WRAPPERS[wrapped.prefix]
    summary = (
        f"the state dict was saved without the wrapper ({name}): its names lack the {wrapped.prefix!r} of the model's"
        if wrapped.of_model
        else f"the state dict was saved with the wrapper ({name}): its names begin with {wrapped.prefix!r}, and the "
        "model's do not"
    )
    return structs.replace(
        alone,
        variant=variant,
        values={**alone.values, "prefix": wrapped.prefix},
        confidence=PROVED if wrapped.proved else LIKELY,
        summary=summary,
        evidence=evidence,
    )


def wrapper(missing: tuple[str, ...], unexpected: tuple[str, ...]) -> Wrapped | None:
    """The wrapper that one side has and the other has not; None where that is not the difference."""
    for prefix in WRAPPERS:
        for names, others, of_model in ((missing, unexpected, True), (unexpected, missing, False)):
            if not names or not all(_has(name, prefix) for name in names):
                continue
            if any(_has(name, prefix) for name in others):
                continue
            plain = {_without(name, prefix) for name in names}
            return Wrapped(prefix, of_model, proved=not plain.isdisjoint(others))
    return None


def _has(name: str, prefix: str) -> bool:
    return name.startswith(prefix) or (prefix in ANYWHERE and f".{prefix}" in name)


def _without(name: str, prefix: str) -> str:
    return name.replace(prefix, "") if prefix in ANYWHERE else name.removeprefix(prefix)
