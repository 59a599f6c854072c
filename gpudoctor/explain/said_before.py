"""What a log says directly before an exception that no table knows: often what the exception follows from.

A library tells what it did not find and goes on until something is raised; a shell's command fails, and the next one
misses what it should have made. The exception stays the cause, and these lines are quoted with it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.explain.classes import REFUSES, judged_message
from gpudoctor.explain.course import MILD, PROGRESS, TROUBLE
from gpudoctor.explain.end_lines import OVER, tells_an_end
from gpudoctor.explain.errnos import judged_words
from gpudoctor.explain.last_words import BUILDING
from gpudoctor.explain.marked_lines import is_marked
from gpudoctor.explain.of_tests import listed
from gpudoctor.explain.order import Facts
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.tracebacks import FRAME, HEADER, Traceback
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import LIKELY, SEEN

OF = frozenset({"program-error", "library-missing"})
"""Causes that say no more than what was raised."""
NEAR, MOST = 8, 2
"""Lines before the exception in which any trouble is looked for (farther up only what its writer marks as an error),
and those of them that are quoted (our rules of thumb)."""


OF_VALUES: tuple[Class, ...] = ("argument", "data", "assertion", "exception", "shape")
LEFT_OUT = lazy_re(
    r"(?i)\bWARN(?:ING)?\b[^\n]*\b(?:ignoring|ignored|skipp(?:ed|ing)|removed|removing|discard(?:ed|ing)|only 0 of|"
    r"no (?:labels?|images?|annotations?|samples?|data|files?) (?:found|in)|corrupt)\b"
)
"""A warning of data that are not used: what misses them may fail behind it in words that say nothing of that."""
OF_A_TOOL = lazy_re(
    r"(?i)^(?:(?:/\S{1,80}/)?(?:tar|wget|curl|cp|mv|ln|unzip|gzip|gunzip|bzip2|xz|zstd|rsync|scp|cat|rm|mkdir|aws|"
    r"gsutil|gcloud|azcopy|s5cmd|rclone|git|mount(?:\.\w{2,8})?): ?|fatal error: |download failed: )[^\n]*"
    r"(?:cannot|can't|could not|"
    r"no such|fail|unable|error|denied|not found|unexpected|refused|timed out|no space|not resolve|not in gzip)"
)
"""What the usual tools that fetch, copy and unpack write when they fail."""
MISSES = lazy_re(
    r"(?i)no such file|not found|not exist|num_samples=0|"
    r"\bempty\b|\bno (?:\w{2,12} )?(?:files?|images?|data|samples?)\b|"
    r"out of input|EOFError|\bzip\b|gzip|central directory|IndexError|ZeroDivision|StopIteration|expecting value|"
    r"length 0|invalid load key"
)
"""Of something that was not made, or not to its end."""
LONGEST = 240
OF_A_BUILD = lazy_re(r"Error (?:building|compiling) (?:objects for )?extension")
"""It tells only that a build has failed: the compiler's first error, wherever it stands, says of what."""
OF_HYDRA = "Error executing job with overrides: "
"""Before each exception of a job: it tells only that one follows."""
OF_NINJA = lazy_re(r"\s{0,12}FAILED: \S")
"""ninja's name of what a failed command was to make; the compiler's error follows."""
WARNED = lazy_re(r"(?P<file>[^\n:]{1,400}):(?P<line>\d{1,9}): \w{0,60}Warning: (?P<text>[^\n]{8,600})")
"""As warnings.formatwarning writes one; torch's own bear the Python line under way (c10/util/Exception.h)."""
TRIGGERED = lazy_re(r" ?\(Triggered internally at [^)]*\)")
FRAMED = lazy_re(r"\s{0,8}[─╭╮╰╯│━┏┓=*#-]{2}")
TITLE = 4
"""Words of a title at most (our choice)."""
DOUBTED = (LIKELY + SEEN) / 2
"""Below it a line is one of several that fit: surer ones say of themselves that they are the cause."""


def is_doubted(
    cause: LogCause, told: frozenset[tuple[str, int]], ends: Mapping[str, Sequence[tuple[int, str]]]
) -> bool:
    """A cause that is likely only, and before whose first line trouble stands of which nothing is known: that may be
    what came first. `told`: lines of which something is known."""
    if cause.confidence >= DOUBTED or not cause.evidence:
        return False
    at = min(cause.evidence, key=lambda line: line.line)
    end = ends.get(at.file, ())
    source = frozenset(listed(end))
    before = (
        (text, then)
        for (number, text), (_, then) in pairwise(end)
        if number < at.line and number not in source and (at.file, number) not in told
    )
    return any(
        TROUBLE.search(text)
        # a record of a logger, or Ray's of a task, whose exception follows
        and not (HEADER in then or FRAME.search(then))
        and not (MILD.search(text) or HEADER in text or FRAME.search(text))
        # what announces the next lines, and what tells of an end, is no first cause
        and not (text.rstrip().endswith(":") or tells_an_end(text) or is_headline(text) or OF_NINJA.match(text))
        # the same trouble told twice is no other
        and _kind(text) != cause.kind
        for text, then in before
    )


def _kind(text: str) -> str:
    judged = judged_words(text) or judged_message(text)
    return judged.kind if judged else ""


def is_headline(text: str) -> bool:
    """A title in a frame, which says nothing itself."""
    return bool(FRAMED.match(text)) and len(text.strip("─╭╮╰╯│━┏┓-=*# ").split()) <= TITLE


def said_before(cause: LogCause, facts: Facts, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause:
    """The cause, with the lines of trouble before it, the nearest last. `ends`: the last lines of each file."""
    if cause.cause not in OF or not cause.evidence:
        return cause
    at = cause.evidence[0]
    traceback = next(
        (
            told.traceback
            for told in facts.tracebacks
            if told.at.file == at.file and told.traceback.first_line <= at.line <= told.traceback.last_line
        ),
        None,
    )
    start = traceback.first_line if traceback is not None else at.line
    if traceback is not None and (warned := _warned_there(traceback, at.file, ends)):
        why = " ".join(dict.fromkeys(f"{shortened(text, LONGEST).rstrip('.')}." for _, text in warned[:MOST]))
        fix = Fix(f"Warnings at that very line say why: {why} {cause.fix.text}")
        return structs.replace(cause, fix=fix, evidence=(*cause.evidence, *(line for line, _ in warned[:MOST])))
    inside = {line.line for line in cause.evidence}
    if OF_A_BUILD.search(at.text):
        others = ((number, text) for number, text in ends.get(at.file, ()) if number not in inside)
        built = next((Line(at.file, number, clean(text)) for number, text in others if BUILDING.search(text)), None)
        return cause if built is None else structs.replace(cause, evidence=(*cause.evidence, built))
    lines: list[Line] = []
    left_out: list[Line] = []
    for number, text in reversed(ends.get(at.file, ())):
        if number < start and number not in inside:
            if PROGRESS.search(text):
                break
            is_near = number >= start - NEAR and TROUBLE.search(text) and not MILD.search(text)
            none = OVER.search(text) or HEADER in text or FRAME.search(text) or text.startswith(OF_HYDRA)
            if (is_near or is_marked(text)) and not none:
                lines.insert(0, Line(at.file, number, clean(text)))
            elif number >= start - NEAR and cause.kind in OF_VALUES and LEFT_OUT.search(text):
                left_out.insert(0, Line(at.file, number, clean(text)))
    if left_out and not lines:
        told = shortened(left_out[0].text.strip(), LONGEST)
        fix = Fix(
            f"Mend first what was left out before, which may be all that there was: {told.rstrip('.')}. "
            f"{cause.fix.text}"
        )
        return structs.replace(cause, fix=fix, evidence=(*cause.evidence, *left_out[:MOST]))
    failed = next((line.text.strip() for line in lines if OF_A_TOOL.match(line.text.strip())), "")
    if failed and MISSES.search(at.text):
        told = shortened(failed, LONGEST).rstrip(".")
        cause = structs.replace(cause, fix=Fix(f"Mend first what failed before it: {told}. Else: {cause.fix.text}"))
    return structs.replace(cause, evidence=(*cause.evidence, *lines[-MOST:]))


def _warned_there(
    traceback: Traceback, file: str, ends: Mapping[str, Sequence[tuple[int, str]]]
) -> list[tuple[Line, str]]:
    """Warnings of what was refused, at the line from which the exception came: a library that tries one way after the
    other (attention's kernels) tells why each was left, and raises that none is left."""
    places = {(raised.file, raised.at) for raised in traceback.raised}
    return [
        (Line(file, number, clean(text)), said)
        for number, text in ends.get(file, ())
        if number < traceback.first_line and (warning := WARNED.match(text)) is not None
        if (warning["file"], int(warning["line"])) in places
        if REFUSES.search(said := TRIGGERED.sub("", warning["text"]).strip())
    ]
