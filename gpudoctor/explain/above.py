"""What stands above an error and tells more of what to do than the error itself: the command, a compiler's first error;
and where no cause is decided, what the quoted lines say themselves or a remedy knows of them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.causes import CAUSES
from gpudoctor.explain.advised import advice
from gpudoctor.explain.beside import COMMAND
from gpudoctor.explain.classes import cause_of, variant_of
from gpudoctor.explain.conclude import FAILED_BEFORE, Conclusion
from gpudoctor.explain.course import MILD, TROUBLE
from gpudoctor.explain.end_lines import is_over, tells_an_end
from gpudoctor.explain.last_words import BUILDING
from gpudoctor.explain.line_words import judged_line
from gpudoctor.explain.own_words import names
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.shown_commands import by_commands
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.explain.writers import writer
from gpudoctor.fault_classes import Class
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_of_line
from gpudoctor.symptom import UNSAID

OF_A_BUILD = lazy_re(
    r"BackendCompilerFailed|Error (?:building|compiling)|(?:gcc|g\+\+|c\+\+|/cc|nvcc|"
    r"ninja)'?[^\n]{0,600}(?:non-zero exit|exit "
    r"(?:code|status))|InductorError|CppCompileError|collect2: |make(?:\[\d+\])?: \*\*\* |ninja: build stopped"
)
"""It tells only that a compiler or a build failed."""
SET_TO = lazy_re(r"NCCL_SOCKET_IFNAME set (?:by environment )?to (?P<value>\S{1,80})")
INTERFACE = (
    "NCCL_SOCKET_IFNAME is {value} there, and no interface of that node fits it: write the name of one that leads to "
    "the "
    "other nodes (^ before names excludes these, = means exactly that name, any other sign is part of the name), or "
    "take "
    "it out; an exclusion list excludes lo too."
)
OF_ALL_ALIKE = lazy_re(r"(?i)reserved (?:but unallocated )?memory|_ALLOC_CONF|fragmentation")
OF_MEMORY: tuple[Class, ...] = ("gpu-memory", "host-memory")
SAY_NOTHING = ("at", "alone", "own-line", "in-package", "asserted")
"""Variants of a program's error that say where, and not what."""
NO_REMEDY = tuple(str(CAUSES["program-error"].variants[name]).partition("{")[0] for name in ("at", "alone"))
"""How a fix begins that says nothing of what to do."""
TELL_ONLY_AN_END: tuple[Class, ...] = ("dead-rank", "signal")
"""Classes of what follows: where an error line stands before it, undecided as it is, that line says more."""
SAME, FEW = 60, 12
"""Characters of a line by which it is known again, and so few that they are nobody's."""
LAST = 40
"""Lines at the end of a log that are asked (our rule of thumb)."""


def narrowed(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause:
    """The cause with the fix that a line above shows."""
    if told := by_commands(ends):
        return structs.replace(cause, fix=Fix(told))
    if cause.cause == "wrong-nic" and (value := _interface(ends)):
        return structs.replace(cause, fix=Fix(INTERFACE.format(value=value), cause.fix.commands))
    if cause.fix == CAUSES[cause.cause].fix and (narrower := _of_line(cause) or _of_message(cause)):
        return structs.replace(cause, fix=narrower)
    if cause.cause != "program-error" or not any(OF_A_BUILD.search(line.text) for line in cause.evidence):
        return cause
    for file, lines in ends.items():
        for number, text in lines:
            if BUILDING.search(text) and (known := remedy_of_line(text)):
                told = known[0].fix.text.format_map({"told": "", **known[1]})
                line = Line(file, number, text)
                evidence = cause.evidence if line in cause.evidence else (*cause.evidence, line)
                return structs.replace(cause, fix=Fix(told, known[0].fix.commands), evidence=evidence)
    return cause


def _of_line(cause: LogCause) -> Fix | None:
    """Where nothing narrower than the cause's own fix was found: what a remedy of the same class says of its lines."""
    for line in cause.evidence[:3]:
        known = remedy_of_line(line.text)
        if known is not None and known[0].judged and known[0].judged.kind == cause.kind:
            return Fix(known[0].fix.text.format_map({"told": "", **known[1]}), known[0].fix.commands)
    return None


def _of_message(cause: LogCause) -> Fix | None:
    """Where a message of too little memory says itself what to take less of, that goes before what is told of all of
    them. What torch says of its allocator stands behind each of its messages."""
    told = advice(cause.evidence[0].text) if cause.evidence and cause.kind in OF_MEMORY else ""
    if not told or OF_ALL_ALIKE.search(told):
        return None
    return Fix(f"Do what the message itself says: {told}. Else: {cause.fix.text}", cause.fix.commands)


def _interface(ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """What NCCL tells that NCCL_SOCKET_IFNAME is."""
    texts = (text for lines in ends.values() for _, text in lines)
    return next((match["value"] for text in texts if (match := SET_TO.search(text))), "")


def undecided_fix(concluded: Conclusion, trouble: Sequence[Line], ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """What may be done where no cause is decided: what solves that by which it ended, where only what came before that
    is not known; else what the quoted lines tell. Candidates that compete have a fix each, and none is handed over; nor
    is that of what only followed."""
    first, unknown = (concluded.causes[0] if concluded.causes else None), concluded.unknown or ""
    if first is None or first.kind in TELL_ONLY_AN_END:
        return to_try(trouble, ends, unknown)
    is_known = first.summary in unknown and FAILED_BEFORE not in unknown and not concluded.waited
    return first.fix.text if is_known and not first.fix.text.startswith(NO_REMEDY) else ""


def to_try(trouble: Sequence[Line], ends: Mapping[str, Sequence[tuple[int, str]]], unknown: str = "") -> str:
    """Empty: nothing of the kind is known. `unknown`: how what failed is told, which quotes the line that decides."""
    if told := by_commands(ends):
        return told
    quoted = {(line.file, line.line) for line in trouble}
    lines = [
        Line(file, number, text[writer(text).length :])
        for file, texts in ends.items()
        for (_, before), (number, text) in pairwise([(0, ""), *texts[-LAST:]])
        if (file, number) in quoted or (TROUBLE.search(text) and not MILD.search(text) and not FRAME.match(before))
    ]
    asked = [
        line
        for index, line in enumerate(lines)
        if not FRAME.search(line.text) and not is_over(line, lines[index + 1 :])
    ]
    for line in asked:
        if known := remedy_of_line(line.text):
            values = {name: value or UNSAID for name, value in known[1].items()}
            return known[0].fix.text.format_map({"told": "", **values})
    for line in lines:
        if words := advice(line.text):
            return f"Do what the line itself says: {words}."
    texts_at_end = (clean(text) for texts in ends.values() for _, text in texts[-LAST:])
    decisive = (text for text in texts_at_end if len(text.strip()) > FEW and text.strip()[:SAME] in unknown)
    return next((told for text in decisive if (told := _of_its_words(text[writer(text).length :]))), "")


OF_PYTHON = tuple(
    (lazy_re(text), name)
    for text, name in (
        (r"(?:[A-Za-z_]\w{0,60}\.){0,3}\w{1,60}\(\) (?:got an unexpected keyword argument '|missing \d+ required |"
         r"takes \d)[^\n]{1,200}", "TypeError"),
        (r"(?:module '[\w.]{1,80}'|'\w{1,60}' object) has no attribute '\w{1,80}'", "AttributeError"),
        (r"cannot import name '\w{1,80}' from [^\n]{1,300}", "ImportError"),
    )
)  # fmt: skip
"""Python's own messages, which programs print without the exception's name, behind words of theirs."""


def _of_its_words(text: str) -> str:
    """What the line's own words, or what it names, tell of its fix."""
    judged = judged_line(text)
    if judged is None or tells_an_end(text) or COMMAND.match(text):
        return ""
    cause = cause_of(judged)
    found = next(((name, match[0]) for words, name in OF_PYTHON if (match := words.search(text))), ("", text))
    variant, values = variant_of(cause, judged, *found, alone=True)
    if variant in SAY_NOTHING or (variant == "refused" and not names(values["said"])):
        return ""
    return CAUSES[cause].remedy(variant, place="", who="that process", **values).text


__all__ = ["TELL_ONLY_AN_END", "narrowed", "undecided_fix"]
