"""The end of a log that no table knows, told by its form alone.

Asked in this order: an exception without its traceback; a program's error with the C library's reason behind it
("mkdir: cannot create directory '/run/x': Permission denied"); the error line of what starts jobs, or of a program that
ends with it; a compiler's error, of a build; losses that are no numbers; a shell's word for a signal.
"""

import os
import re
import signal
from collections.abc import Mapping, Sequence
from itertools import takewhile

from msgspec import structs

from gpudoctor.cause import Judged
from gpudoctor.causes import CAUSES
from gpudoctor.explain.classes import cause_of, judged_exception, judged_message, variant_of
from gpudoctor.explain.conclude import Conclusion
from gpudoctor.explain.course import NOT_A_NUMBER
from gpudoctor.explain.deaths import AFTERWARDS, ASKED, OF_COMMUNICATION, OF_LAUNCHERS, REFERS
from gpudoctor.explain.end_lines import EVENT, OVER, ends_told, last_lines, of_speakers
from gpudoctor.explain.endings import OF_SIGNAL, judged_signal, signal_number
from gpudoctor.explain.errnos import OF_ERRNO, OF_RESOLVERS, judged_words
from gpudoctor.explain.got_over import MAY_FAIL, left_behind
from gpudoctor.explain.kinds import DOWNLOAD, FILE, MISMATCH, NAN, NO_DEVICE, OTHER, PERMISSION
from gpudoctor.explain.line_rows import NO_FAULT, judged_shape
from gpudoctor.explain.line_words import judged_line
from gpudoctor.explain.lines_to_paste import lines_for
from gpudoctor.explain.marked_lines import is_prose
from gpudoctor.explain.own_words import HEADER, suggested
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.speakers import spoken_error
from gpudoctor.explain.state_tables import stops_a_job
from gpudoctor.explain.told_by_place import NOTHING
from gpudoctor.explain.tracebacks import FRAME, of_one_rank
from gpudoctor.explain.writers import writer
from gpudoctor.knowledge.wording import shortened
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_of_line
from gpudoctor.sure import LIKELY, POSSIBLE

EXCEPTION_LINE = lazy_re(
    r"(?:^|[\s:\]|>\"\x27])(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,6}(?:[A-Z]\w{0,60}(?:Error|Exception)|Exception|"
    r"(?<=\.)[A-Z]\w{2,60}(?=: )))(?:: (?P<message>[^\n]{1,1000})|:?\s*$)"
)
OF_A_POD = lazy_re(r"\s*\"?(?:[Rr]eason|[Ss]tatus|[Tt]ype)\"?:\s")
"""kubectl describe: why a pod has ended or waits, in one word."""
ENDS_WITH = lazy_re(
    r"^(?:> )?(?:error|fatal(?: error)?|panic|abort(?:ing|ed)?)\b[:!] \S|\b(?:exiting(?: now)?|will now abort"
    r"(?:\(\))?|aborting)[.!]?\s*$|MPI_ERRORS_ARE_FATAL",
    re.IGNORECASE,
)
"""The error by which a program ends, where it is what the log ends with."""
BUILDING = lazy_re(
    r"(?:^|\s)[^\s:]{1,300}(?::\d{1,7}){1,2}: (?:fatal )?error: (?!Assertion [`'])|"
    r"^[^\s(]{1,300}\(\d{1,7}\): (?:fatal |catastrophic )?error\b|\bcollect2: (?:fatal )?error: |"
    r": undefined reference to |\bld: cannot find -l|^(?:nvcc|ptxas)\s+(?:fatal|error)\s*:|^CMake Error\b|"
    r"\bKilled signal terminated program |' died due to signal 9\b|^ninja: build stopped|"
    r"^make(?:\[\d+\])?: \*\*\* |error: command '[^'\n]{1,200}' failed with exit "
)
"""GCC's, Clang's, NVCC's and EDG's form of an error, the linkers', and what ends the build that called them."""
OF_AN_EXTENSION = lazy_re(r"/(?P<name>\w{1,60})/(?P=name)(?:_v\d{1,3})?\.so: cannot open shared object file")
"""torch/utils/cpp_extension.py keeps each in a folder of its name."""
MOST_NOT_NUMBERS = 2
"""Losses that are no numbers: so many are more than a step that a loss scaler leaves out (our rule of thumb)."""
DRAWN = lazy_re(r"^probability tensor contains")
"""A token is drawn: nothing is trained (torch ATen/native/cuda/MultinomialKernel.cu)."""
NO_NUMBERS = "What it trained before is lost with the first of these steps: no update makes a number of a weight again."
OF_ANYTHING = frozenset({"data", "checkpoint", "config", "file-missing"})
"""Classes by the words for things of which every log speaks."""
COMMENT = lazy_re(r"\s*# [a-z]")
"""Of a script that the log quotes."""
LAST = 4
"""Lines at the end among which such a line is the program's last word (our rule of thumb)."""
NOT_THERE = lazy_re(
    r"(?i)\b(?:do(?:es)? not exist|doesn't exist|not found|no such|could not|cannot|can't"
    r"|denied)\b"
)
BEFORE = 40
"""Lines before an exception, its traceback among them, that may tell what was not there (our rule of thumb)."""
AT_WORK = lazy_re(r"(?:^|[\s\[|])(?:INFO|DEBUG|I)(?:[\s\]|:]|$)")
LEVEL_WITHIN, MOST_AT_WORK = 80, 10
"""Where a logger's level stands in a line, and so many such lines behind an error of which nothing else is known are
more than a program tells on its way out (our rule of thumb)."""
NEAR = 12
"""Lines at the end among which a command's failure may have ended the script that called it (our rule of thumb)."""
MOST_MORE = 5
MOST_SHOWN = 480
"""Characters of a line that is the answer (as of one that decides: six lines of a terminal)."""
REASONS = "|".join(
    sorted(map(re.escape, (*map(os.strerror, OF_ERRNO), *OF_RESOLVERS)), key=lambda reason: (-len(reason), reason))
)
FAILED = lazy_re(
    rf"\S: (?:{REASONS}|cannot execute: required file not found)(?:\s?\([\w,-]{{1,80}}\)|: \S[^\n]{{0,300}})?[.]?\s*$",
    re.IGNORECASE,
)
"""perror(3), error(3), err(3), and the shells: what failed, a colon, and strerror(3)'s words."""
OF_A_LIBRARY = lazy_re(
    r"\bUCX\s+(?:ERROR|FATAL|WARN)\b|\blibfabric:|\bNET/(?:OFI|IB)\b|<warn>|\bibv_\w{3,40}|\bfi_\w{3,40}"
    r"|\brdma_\w{3,40}|"
    r"\bNCCL (?:WARN|INFO)\b|\[c10d\]"
)
"""Of a library's call: the errno's words are those of a device or a connection there, and no file's or program's."""
OF_A_DEVICE = lazy_re(r"(?i)\s*(?:CUDA|HIP|cuDNN|cuBLAS|NCCL|OpenCL)\b[^\n:]{0,20}error: \S")
SIGNALS = {
    words: number
    for number in signal.Signals
    if number not in (signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG)
    and (words := signal.strsignal(number))
}
SIGNALLED = lazy_re(
    r"(?:^|^\d{1,6}: |\]:?\s?|Z |\) |: line \d{1,7}: \s{0,8}\d{1,8} )"
    rf"(?P<words>{'|'.join(map(re.escape, sorted(SIGNALS, key=lambda each: (-len(each), each))))})"
    r"(?: \(core dumped\)(?:\s|$)|\s{2,}\S|\s{0,4}$)"
)
OF_PADDLE = lazy_re(r"^\s{0,4}\[SignalInfo: \*{3} SIG(?P<name>TERM|INT|HUP) \(@0x")
"""Paddle's handler of signals (platform/init.cc), of one by which a process is asked to end."""
RDMA = Judged("rdma", "fabric", "not decided")
OF_NO_TABLE = "the log ends with an error that no table knows"
"""How an error line is told of which only the class is known."""


def last_words(
    trouble: Sequence[Line],
    concluded: Conclusion,
    ends: Mapping[str, Sequence[tuple[int, str]]],
    lines_told: frozenset[tuple[str, int]],
    on: Mapping[str, int],
) -> Conclusion:
    """What the quoted lines tell by their form. They stand behind the last sign of progress.

    `ends`: the last lines of each file; what was written long before the end did not end the job. `told`: lines that
    something else speaks of. `on`: of each file, the last line that shows the job getting on."""
    at_end = tuple(last_lines(ends, on, lines_told))
    spoken = of_speakers(at_end)
    last = {file: lines[-1][0] for file, lines in ends.items() if lines}
    said = [
        line
        for line in trouble
        if not (OVER.search(line.text) or EVENT.search(line.text))
        and last.get(line.file, line.line) - line.line <= AFTERWARDS
        and (line.file, line.line) not in lines_told
    ]
    asked = next((found for line in reversed(at_end) if (found := OF_PADDLE.search(line.text))), None)
    if asked is not None and not concluded.unknown:
        unknown = f"told to end by SIG{asked['name']}; by whom and why, these logs do not say"
        return structs.replace(concluded, unknown=unknown, judged=judged_signal(signal.Signals[f"SIG{asked['name']}"]))
    for line in said:
        if spoken is not None and spoken.line.file == line.file and spoken.line.line <= line.line:
            break
        line = structs.replace(line, text=of_one_rank(line.text))
        match = EXCEPTION_LINE.search(line.text)
        name = match["type"].rpartition(".")[2] if match else ""
        if match is None or name in ASKED | OF_LAUNCHERS:
            continue
        if OF_COMMUNICATION.match(name) and not (name == "EOFError" and match["message"]):
            continue
        if REFERS.search(line.text) or OF_A_POD.match(line.text):
            continue
        more = tuple(
            Line(line.file, number, text)
            for number, text in ends.get(line.file, ())
            if line.line < number <= line.line + MOST_MORE and (line.file, number) not in lines_told
        )
        message = match["message"] or ""
        judged = judged_exception(match["type"], "\n".join((message, *(each.text for each in more))))
        if more and (not message or message.endswith(":")):
            message = f"{message} {more[0].text.strip()}".strip()
        words = f"{match['type']}: {message}" if message else match["type"]
        if judged == NO_DEVICE and (why := next((cause for cause in concluded.causes if cause.kind == "driver"), None)):
            # that there is no GPU follows from what keeps CUDA from starting
            others = tuple(cause for cause in concluded.causes if cause is not why)
            sure = structs.replace(why, confidence=max(LIKELY, why.confidence), evidence=(*why.evidence, line))
            return structs.replace(concluded, causes=(sure, *others))
        shown = (line, *more) if len(match["message"] or "") < 60 or (match["message"] or "").endswith(":") else (line,)
        if more and (not match["message"] or HEADER.match(message)):
            told = (each.text[writer(each.text).length :] for each in more)
            message = "\n".join((match["message"] or "", *told)).strip()
        return _caused(concluded, judged, f"the log ends with {shortened(words)}", shown, match["type"], message)
    if spoken is not None and spoken.remedy.judged is not None:
        summary = f"the log ends with {shortened(spoken.line.text)}"
        values = {"told": suggested(spoken.text), **spoken.values}
        its_fix = (spoken.remedy.id, values)
        return _caused(concluded, spoken.remedy.judged, summary, (spoken.line,), message=spoken.text, its_fix=its_fix)
    for line in said:
        behind = last.get(line.file, line.line) - line.line
        near = behind < NEAR and (not behind or not MAY_FAIL.search(line.text))
        if not FAILED.search(line.text) or OF_A_LIBRARY.search(line.text) or not (concluded.unknown or near):
            continue
        remedied = remedy_of_line(line.text)
        reason = remedied[0].judged if remedied else None
        if OF_A_DEVICE.match(line.text):  # perror(3) puts an errno behind it that is another call's
            reason = reason or judged_message(line.text.rpartition(":")[0])
        reason = reason or judged_words(line.text) or judged_message(line.text)
        reason = reason or (FILE if "required file" in line.text else OTHER)
        return _caused(concluded, reason, f"a command failed: {shortened(line.text)}", (line,))
    if concluded.unknown and (concluded.causes or concluded.waited):
        return concluded
    for line in said:
        if FAILED.search(line.text) and OF_A_LIBRARY.search(line.text) and not concluded.causes:
            unknown = concluded.unknown or f"a call of the network's libraries failed: {shortened(line.text)}"
            return structs.replace(concluded, unknown=unknown, judged=RDMA)
    if not concluded.causes:
        if built := next((line for line in said if BUILDING.search(line.text)), None):
            below = _indented(built, ends) if built.text.rstrip().endswith(":") else ()
            whole = " ".join((built.text, *[each.text.strip() for each in below]))
            remedied = remedy_of_line(whole)
            reason = remedied[0].judged if remedied else None
            reason = reason or judged_words(whole) or judged_message(whole) or MISMATCH
            return _caused(concluded, reason, f"a build ended with {shortened(whole)}", (built, *below))
        lost = [line for line in said if NOT_A_NUMBER.search(line.text)]
        if len(lost) >= MOST_NOT_NUMBERS:
            return _caused(concluded, NAN, f"the loss is no number from line {lost[0].line} on", tuple(lost))
    error = spoken_error(sorted({*said, *at_end}, key=lambda line: (line.file, line.line)))
    if error and left_behind((error.line,), ends) and not worked_on(error.line, ends):
        return _of_no_table(concluded, error.line, error.judged or concluded.judged, ends)
    for line in said:
        is_last = last.get(line.file, line.line) - line.line < LAST
        if is_last and ENDS_WITH.search(line.text):
            if (remedied := remedy_of_line(line.text)) and remedied[0].judged:
                return _caused(concluded, remedied[0].judged, f"the log ends with {shortened(line.text)}", (line,))
            return _of_no_table(concluded, line, judged_line(line.text) or concluded.judged, ends)
        if is_last and (signalled := SIGNALLED.search(line.text)):
            number = SIGNALS[signalled["words"]]
            unknown = f"the shell tells that {signal.Signals(number).name} ended its program ({signalled['words']})"
            return structs.replace(concluded, unknown=unknown, judged=judged_signal(number))
    if concluded.causes or (concluded.unknown and concluded.judged is not None):
        return concluded
    ended = concluded if concluded.unknown else _of_status(at_end, concluded)
    if ended.causes or (ended.unknown and ended.judged is not None and not concluded.unknown):
        return ended
    # behind the last step only what stands at the very end has ended the job
    at_very_end = (
        line
        for line in at_end
        if on.get(line.file, 0) and last[line.file] - line.line < LAST and not _got_on_with(line, ends, on)
    )
    return of_shape(ended, tuple(at_very_end))


def worked_on(line: Line, ends: Mapping[str, Sequence[tuple[int, str]]]) -> bool:
    """Behind it the program told, as long as is kept, of what it did next."""
    behind = [text for number, text in ends.get(line.file, ()) if number > line.line]
    return sum(bool(AT_WORK.search(text[:LEVEL_WITHIN])) for text in behind) >= MOST_AT_WORK


def _got_on_with(line: Line, ends: Mapping[str, Sequence[tuple[int, str]]], on: Mapping[str, int]) -> bool:
    """The job was told the same, word for word, and got on behind it."""
    said = line.text.strip()
    return any(number <= on[line.file] and clean(text).endswith(said) for number, text in ends.get(line.file, ()))


def _indented(line: Line, ends: Mapping[str, Sequence[tuple[int, str]]]) -> tuple[Line, ...]:
    """The message below a line that announces it, deeper than the line (CMake's cmMessenger)."""
    deep = len(line.text) - len(line.text.lstrip())
    below = [(number, text) for number, text in ends.get(line.file, ()) if number > line.line][:MOST_MORE]
    deeper = (len(text) - len(text.lstrip()) > deep for _, text in below)
    return tuple(
        Line(line.file, number, clean(text)) for (number, text), _ in zip(below, takewhile(bool, deeper), strict=False)
    )


def of_known_words(
    trouble: Sequence[Line], concluded: Conclusion, ends: Mapping[str, Sequence[tuple[int, str]]]
) -> Conclusion:
    """Of a log that shows no job: the first line of trouble whose words tell of what it is, whoever wrote it; else the
    first of its last lines whose shape tells that something is wrong, and of what."""
    for line in trouble:
        over = OVER.search(line.text) or EVENT.search(line.text) or NO_FAULT.search(line.text[:200])
        judged = None if over else judged_words(line.text) or judged_shape(line.text) or judged_message(line.text)
        if judged is not None and judged.kind not in OF_ANYTHING:
            return _of_no_table(concluded, line, judged, ends)
    lines = [Line(file, number, clean(text)) for file, texts in ends.items() for number, text in texts]
    if seen := stops_a_job(lines):
        row = _both_ends(" ".join(seen.line.text.split()))
        unknown = f"{seen.says}: {row}; whether the job failed by it, this text does not say"
        return structs.replace(concluded, unknown=unknown, judged=seen.judged)
    return of_shape(concluded, tuple(last_lines(ends, {}, frozenset())))


def of_the_end(
    trouble: Sequence[Line],
    concluded: Conclusion,
    ends: Mapping[str, Sequence[tuple[int, str]]],
    on: Mapping[str, int],
) -> Conclusion:
    """Trouble of no known kind that is among the last that a log tells which shows no step and no good end: something
    failed."""
    last = {file: lines[-1][0] for file, lines in ends.items() if lines}
    for line in trouble:
        is_last = last.get(line.file, line.line) - line.line < LAST and not on.get(line.file)
        none = OVER.search(line.text) or EVENT.search(line.text) or NO_FAULT.search(line.text[:200])
        if is_last and not (none or is_prose(line.text)):
            return _of_no_table(concluded, line, judged_line(line.text) or judged_message(line.text), ends)
    return concluded


def of_shape(concluded: Conclusion, lines: Sequence[Line]) -> Conclusion:
    """The first of these lines whose shape tells that something is wrong, and of what."""
    for line in lines:
        judged = None if OVER.search(line.text) or COMMENT.match(line.text) else judged_shape(line.text)
        if judged is not None:
            return _of_no_table(concluded, line, judged, {})
    return concluded


def _of_no_table(
    concluded: Conclusion, line: Line, judged: Judged | None, ends: Mapping[str, Sequence[tuple[int, str]]]
) -> Conclusion:
    """An error of which only the class is known, if that."""
    text = line.text.rstrip()
    if text.endswith((":", "):")):  # the reason stands in the line behind what announces it
        behind = (clean(each).strip() for number, each in ends.get(line.file, ()) if number > line.line)
        text = f"{text} {next(filter(None, behind), '')}".rstrip()
    unknown = f"{OF_NO_TABLE}: {_both_ends(text)}"
    return structs.replace(concluded, unknown=unknown, judged=judged)


def _both_ends(text: str) -> str:
    """A long line without its middle: programs put the reason of what failed behind it, the innermost last."""
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN // 2 - 3]} ... {text[-MOST_SHOWN // 2 + 2 :]}"


def _of_status(lines: Sequence[Line], concluded: Conclusion) -> Conclusion:
    """What somebody tells of a process's end by its status, where nothing else is known: a signal that is no request,
    else only that it ended."""
    told = list(ends_told(lines))
    for ended in told:
        ending = OF_SIGNAL.get(signal_number(ended.code))
        if ending is None:
            continue
        known, name = CAUSES[ending.cause], signal.Signals(signal_number(ended.code)).name
        judged = known.judge(ending.variant)
        cause = LogCause(
            cause=known.id,
            kind=judged.kind,
            blame=judged.blame,
            restart=judged.restart,
            # a shell's count from 128 on may be a program's own status
            confidence=min(ending.confidence, LIKELY if ended.code < 0 else POSSIBLE),
            evidence=(ended.line,),
            summary=f"a process {ending.words.format(name=name)}: {shortened(ended.line.text)}",
            meaning=known.meant(ending.variant),
            fix=known.remedy(ending.variant, who="that process"),
            confirm=known.test(ending.variant),
        )
        unknown = None if ended.code < 0 else f"{cause.summary}; why, this log does not say"
        return structs.replace(concluded, causes=(cause,), unknown=unknown)
    if told:
        number = signal_number(told[0].code)
        unknown = f"something ended, and why this log does not say: {_both_ends(told[0].line.text)}"
        return structs.replace(concluded, unknown=unknown, judged=judged_signal(number) if number else None)
    return concluded


def told_before_a_signal(
    concluded: Conclusion, ends: Mapping[str, Sequence[tuple[int, str]]], lines_told: frozenset[tuple[str, int]]
) -> Conclusion:
    """Where a signal ended a program, and a speaker whom we know has told directly before of what: the cause."""
    at = min(concluded.causes[0].evidence, key=lambda line: line.line, default=None)
    if at is None:
        return concluded
    near = {at.file: [each for each in ends.get(at.file, ()) if at.line - NEAR <= each[0] < at.line]}
    spoken = of_speakers(tuple(last_lines(near, {}, lines_told)))
    if spoken is None or spoken.remedy.judged is None:
        return concluded
    summary = f"before a signal ended it, the program told {shortened(spoken.line.text)}"
    its_fix = (spoken.remedy.id, {"told": "", **spoken.values})
    return _caused(concluded, spoken.remedy.judged, summary, (spoken.line, at), message=spoken.text, its_fix=its_fix)


def of_nothing(concluded: Conclusion, ends: Mapping[str, Sequence[tuple[int, str]]]) -> Conclusion:
    """Where a program died of a value that is None, and the lines before tell what was not there: that is the cause."""
    first = concluded.causes[0] if concluded.causes else None
    first_words = first.evidence[0].text if first and first.cause == "program-error" and first.evidence else ""
    if first is None or not NOTHING.search(first_words):
        return concluded
    at = first.evidence[0]
    before = [(number, text) for number, text in ends.get(at.file, ()) if number < at.line and not FRAME.search(text)]
    for number, text in reversed(before[-BEFORE:]):
        judged = judged_message(text) if NOT_THERE.search(text) else None
        if judged in (FILE, DOWNLOAD, PERMISSION):
            line = Line(at.file, number, clean(text))
            return _caused(concluded, judged, f"the program told, and went on: {shortened(line.text)}", (line, at))
    return concluded


def of_a_failed_build(concluded: Conclusion, ends: Mapping[str, Sequence[tuple[int, str]]]) -> Conclusion:
    """Where a rank misses an extension that another one was to build (torch.utils.cpp_extension), and the compiler's
    error stands before: that is the cause."""
    first = concluded.causes[0] if concluded.causes else None
    at = first.evidence[0] if first and first.cause == "library-missing" and first.evidence else None
    if first is None or at is None or not OF_AN_EXTENSION.search(at.text):
        return concluded
    for number, text in ends.get(at.file, ()):
        if number < at.line and BUILDING.search(text) and (known := remedy_of_line(text)) is not None:
            line = Line(at.file, number, clean(text))
            others = structs.replace(concluded, causes=concluded.causes[1:])
            summary = f"an extension could not be built: {shortened(line.text)}"
            return _caused(others, known[0].judged or MISMATCH, summary, (line, at))
    return concluded


def _caused(
    concluded: Conclusion,
    judged: Judged,
    summary: str,
    evidence: tuple[Line, ...],
    type_name: str = "",
    message: str = "",
    its_fix: tuple[str, Mapping[str, str]] | None = None,
) -> Conclusion:
    """`type_name` and `message`: of the exception, where one was raised. `its_fix`: the variant, and its values."""
    known = CAUSES[cause_of(judged)]
    said = message or " ".join(line.text for line in evidence)
    variant, values = variant_of(known.id, judged, type_name, said, alone=True)
    if its_fix is not None and its_fix[0] in known.variants:
        variant, values = its_fix[0], dict(its_fix[1])
    cause = LogCause(
        cause=known.id,
        kind=judged.kind,
        blame=judged.blame,
        restart=judged.restart,
        confidence=LIKELY,
        evidence=evidence,
        summary=summary,
        meaning=known.meant(variant)
        if known.id != "program-error"
        else NO_NUMBERS
        if judged == NAN and not DRAWN.search(said)
        else "",
        fix=known.remedy(variant, *lines_for(known.id, variant, values), place="", who="that process", **values),
        confirm=known.test(variant) if known.id != "program-error" else "",
    )
    behind = tuple(cause for cause in concluded.causes if cause.cause != known.id)
    return structs.replace(concluded, causes=(cause, *behind))
