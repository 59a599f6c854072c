"""What the end of a log shows of the job's course: it gets on, has ended well, stands, or is cut off.

Nothing wrong is said only of the first two. Only the end is looked at: what was wrong before a job that gets on was
no reason to end. A log that shows neither may be that of anything, and its lines that look like trouble are quoted.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct, structs

from gpudoctor.explain.object_states import states
from gpudoctor.explain.standing import standing
from gpudoctor.explain.tracebacks import EXCEPTION, FRAME, FRAME_WRITTEN, HEADER
from gpudoctor.explain.writers import unprefixed, writer
from gpudoctor.lazy import lazy_re

Course = Literal["gets on", "ended well", "stands", "cut off", "not shown"]
WELL: tuple[Course, ...] = ("gets on", "ended well")

TAIL = 96 * 1024
"""Bytes at the end that are looked at."""
MOST_LINES = 1_500
MOST_TROUBLE = 8
MOST_END, LONGEST = 320, 1_000
"""Lines of the end that are kept, and characters of each."""
MOST_MOVES = 32
WENT_ON = 2
"""Lines of progress, beside the first, behind a fault after which it was none that ended the job (our rule of thumb):
ranks that wait for a dead one write no more than one or two."""

PROGRESS = lazy_re(
    r"\b(?:global[ _]?)?(?:it|itr|(?:step|iter(?:ation)?|epoch|batch|update|tick|episode"
    r"|round)s?(?:_(?:num|number|count|idx|index)| n)?)\b[\"']?\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,6}\d"
    r"|(?<![\w./-])(?!\d{1,4}/\d{1,2}(?:/\d{1,4})?,? \d{1,2}:\d\d)\d{1,9}/\d{1,9}\b(?!/\d)[^\n]{0,40}?(?:\d:\d\d"
    r"|it/s|s/it)"
    r"|(?:^|[^\w-])[\w/.-]{0,30}loss[\"']?\s{0,3}[:=]?\s{0,3}-?\d"
    r"|^(?!\s{0,8}(?:rank|worker|process|proc|task|job|node|thread|attempt|retry)\b)[a-z][a-z _]{2,40}\d{1,9}"
    r" (?:is |was )?(?:done|finished|completed|processed|written)\W*$"
    r"|\bTrial (?=\S{1,80} (?:finished|completed|started)\b)[^\n]{0,80}?\d"
    r"|\[HYDRA\]\s{1,8}#\d{1,6} :|\bwandb: Agent Starting Run: (?=\w{0,12}\d)"
    r"|\bthroughput(?: \([\w/]{1,20}\))?: (?=\d{0,9}[.]?\d{0,9}[1-9])"
    r"|\"(?:GET|POST|PUT) /(?!health|ready|live|metrics|ping|v2/health)[^\" \n]{0,200} HTTP/[\d.]{1,3}\" 2\d\d\b",
    re.IGNORECASE,
)
"""Steps, bars, losses, trials (Optuna's, Ray's) and jobs of a search (Hydra's, wandb's); of a server its throughput and
requests that it has answered (no probes)."""
UP = lazy_re(
    r"\bApplication startup complete\b|\bUvicorn running on\b|\bserver is (?:fired up and )?ready\b|"
    r"\bStarted (?:HTTPService|GRPCInferenceService) at\b|\bserver is listening on\b",
    re.IGNORECASE,
)
"""By which a server tells that it can be asked: uvicorn (vLLM, SGLang, TGI's and others' HTTP), Triton, llama.cpp."""
OF_A_POD = lazy_re(r"\bNormal\s{2,60}Started\s{2,60}(?:\d\S{0,12}\s{2,60}kubelet\b|pod/)")
"""Kubernetes' event of a container that has been started, for the first time (else a count stands behind the age): what
had to be waited for before has come."""
ENDED = lazy_re(
    r"\b(?:training|train|job|run|fit|fitting|fine-?tuning|evaluation|experiment|study|sweep|epochs?|calculation"
    r"|simulation|inference|testing|pre-?processing|conversion|benchmark|pipeline|worker group)\b[^\n]{0,40}?"
    r"\b(?:complete|completed|finished|done|succeeded)\b"
    r"|^\W{0,4}(?:all )?(?:done|finished)\W{0,4}$|\bfinished (?:training|evaluation|successfully)\b|"
    r"\b(?:successfully (?:finished|completed)|completed successfully)\b|\bexits successfully|"
    r"`Trainer\.fit` stopped: `max_|'train_runtime'"
    r"|\bexit(?:ed)? (?:with )?(?:code|status):?\s{1,12}0\b|\bReason\"?:\s+\"?Completed\b|\bExited \(0\)"
    r"|\b(?:done|finished|complete[d]?) (?:in|after) \d[\d:.,hms ]{0,20}(?:s|sec|seconds|min|minutes|h|hours)?\W*$"
    r"|^# Avg bus bandwidth|^# Ended \(code 0\) at |^\W{0,6}done with all\b"
    r"|^(?!\s{0,12}\d{2,12}(?:_\d+)?\.\w)[^\n]{0,160}\bCOMPLETED\b[^\n]{0,80}\b0:0\b"
    r"|\bState=COMPLETED\b|\s0/\d{1,3}\s+Completed\s|\btrials: (?P<all>\d{1,6})/(?P=all) \((?P=all) TERMINATED\)"
    r"|^OK(?: \([\w=, ]{1,60}\))?\s*$|(?:^|Z )=+ (?:\d{1,7} \w{1,12}, ){0,3}\d{1,7} passed\b|^\[100%\] Built target\b"
    r"|\bterminated of its own accord\b[^\n]{0,60}\bexit-code 0\b"
    r"|\bfinal (?:validation|test|eval(?:uation)?) (?:metrics|results?|accuracy|score)\b"
    r"|\bexiting\b[^\n]{0,40}\berrors ?[=:] ?0\b"
    r"|\ball (?:tests?|runs?|jobs?|tasks?|experiments?|benchmarks?|targets) (?:are |were )?"
    r"(?:completed?|finished|done|met)\b"
    r"|\ball (?:results|outputs|files|models) (?:are |were |have been )?(?:saved|written)\b|\bexited with 0 \+\+\+$"
    r"|^Total wall time: \d{1,6}:\d\d:\d\d\s*$|^Finished mdrun on rank \d|\bexiting with ret '0'"
    r"|\bsaved (?:the )?final\b|\bfinal (?:model|checkpoint|weights) (?:saved|written)\b"
    r"|\b(?:training|run|job|rank \d+|main|worker)\W{1,3}(?:done|finished)\W*$"
    r"|^[^\n]{0,40}:::MLLOG\b[^\n]{0,200}\"run_stop\"[^\n]{0,600}\"status\": \"success\"",
    re.IGNORECASE,
)
ORDERED = lazy_re(
    r"\[shutdown\] API server: shutdown triggered|\breceived signal (?:\d{1,2}|SIG[A-Z]{3,6})\W{1,3}stopping\b"
)
"""A server was told to end by a signal (vLLM's launcher, Jupyter's): what breaks off behind it follows from that."""
SHUT_DOWN = lazy_re(
    r"\bApplication shutdown complete\b|\bFinished server process \[|\bShutting down \d{1,4} kernels?\b"
)
"""The end of a server that stops in order (uvicorn's, Jupyter's); also of one whose engine has died before."""
LEFT_BEHIND = "resource_tracker: "
"""Of multiprocessing's helper, which cleans up when the program is gone, however it went."""
TOLD_TO_END, OF_THE_AGENT = "death signal, shutting down workers", "closing signal SIG"
MOST_KILLED = 20
"""So many steps come of ranks that torchrun's agent is ending (our rule of thumb); who steps on longer goes on."""
MOST_ALIKE = 3
"""So often the same trouble was followed by progress that its last time ended nothing either (our rule of thumb)."""
ENDS = lazy_re(
    r"\b(?:exit\w*|kill\w*|terminat\w*|dumped|signal|abort\w*|crash\w*|died|dead|fatal|panic)\b", re.IGNORECASE
)
"""Words of an end, which each of several runs in one log tells."""
NULL = r"(?![\"']\s{0,3}:\s{0,3}null\b)"
NONE_OF_THEM = r"(?![\"']?\s{0,3}[:=]\s{0,3}0\b)" + NULL
"""Behind a word of trouble: a counter that stands at zero, or a field without a value, is none."""
DENIED = lazy_re(
    r"\b(?:not|never|before|fail\w*|error|unless|until|without|when|if)\b" + NONE_OF_THEM + r"|\bafter\b(?! \d)"
    r"|\b(?:killed|cancell?ed|timed? ?out)\b"
    r"|\b(?:code|status|rc|exitcode)[ :=]{1,3}-?[1-9]|\b[1-9]\d{0,5} (?:errors|failures)\b",
    re.IGNORECASE,
)
NO_NUMBER = (
    r"(?<![\w/.-])(?<!best )(?<!lowest )(?<!min )(?!\w{0,30}(?:best|min|lowest|prev|init)\w{0,30}\W{1,6}[-+]?inf)"
    r"[\w/.-]{0,40}(?:loss|grad[_ ]?norm)\b\W{0,6}(?:tensor\()?(?:nan|[-+]?inf)\b"
)
"""A loss that is none; the best one so far is infinite before the first."""
TROUBLE = lazy_re(
    r"\b(?<!performance-)(?<!no )(?<!without )(?:error|fatal|critical|panic|abort|aborted|aborting|exception|traceback|"
    r"killed|crash|crashed|segfault|"
    r"core dumped|denied|refused|(?<!node\.kubernetes\.io/)unreachable|corrupt|corrupted|corruption|cannot|can't|"
    r"could not|failed|failure|"
    r"unable to|no module named|giving up|gave up|timed out|"
    r"(?<!async-)timeout(?![\"']?\s{0,3}[:=]\s{0,3}\d)|not found|no such|out of memory|overflow"
    r"|terminated|stopping(?!\.{3} : \[Wall )|no space left|"
    r"quota exceeded|read-only file system|stale file handle|too many open|input/output error|not permitted"
    r"|unexpected "
    r"eof|unexpected end|exiting|terminating the process|"
    r"no route to host|exec format error|hangup|user defined signal|trap)\b"
    + NONE_OF_THEM
    + r"|\bexited with (?:exit )?(?:code|status) [1-9]|^Command '[^\n]{1,990}' (?:returned non-zero |died with <Sig)"
    + rf"|\w(?:Error|Exception)\b{NULL}|{NO_NUMBER}|^(?:\[\w{{1,20}}\]:)?\[?(?-i:F)\d{{4}} \d\d:"
    + r"|^(?:[a-z_]\w{0,60}\.){1,6}(?:errors?|exceptions?|exc)\.(?-i:[A-Z])\w{1,60}: ",
    re.IGNORECASE,
)
"""Words, a loss that is no number, glog's mark of a fatal line, and a type that a module of errors has."""
MILD = lazy_re(
    r"\b(?:(?<!NCCL )WARN|WARNING|INFO|DEBUG|NOTICE|TRACE|warnings\.warn)\b|Warning: |(?:^|[\[:\s])[WI]\d{3,4} \d\d"
    r":|^\[W [\w.]{1,40}:\d+\]|^\[[WID] (?:[\d-]{6,10} )?\d\d:\d\d:\d\d\b|\b(?:kernel )?command line: [A-Za-z_]|"
    r"processes? ha(?:s|ve) sent help message|orte_base_help_aggregate|\bwarning: |"
    r"\bCreated (?:TensorFlow )?device\b|\bredzone_allocator\.cc:\d{1,6}\]|\| TERMINATED {1,12}\||\d TERMINATED\)|"
    r"Relying on driver to perform ptx compilation|\bterminated of its own accord\b[^\n]{0,60}\bexit-code 0\b|"
    r"Unable to register cu\w{2,8} factory|computation placer already registered|"
    r"\bselect_algorithm\.py:\d{1,6}\]|\bfork_posix\.cc:\d{1,6}\]|\bfile_system_monitor\.cc:\d{1,6}: |"
    r"\bfa_utils\.py:\d{1,5}\] Cannot use FA version|^wandb: ERROR Error while calling |\bwandb-AsyncioManager-main:"
    r"|^(?:rm: cannot remove .{1,99}|ls: cannot access .{0,99}\*.{0,99}|\d{1,7}\s{1,8}\S{1,99}\.\w{1,3}): No such file|"
    r"^(?:[A-Za-z][\w ]{1,60}:|\[\w{2,6}\]) Could not collect$|^Vulnerability [\w ]{2,40}: |"
    r"^\s{0,8}Reason=[^\n]{1,200} \[\w{1,40}@\d{4}-|^fatal: not a git repository \(|^Failed to add the host to|"
    r"^\s{0,40}except\b[^\n]{0,200}:\s*$|"
    r"\bNCCL ATTN Failed to initialize NET plugin \w+\s*$|\bNCCL WARN RMA/Socket : rma_socket requires GDRCopy\b",
)
"""A line that calls itself no error, or repeats what was asked for (the kernel's `panic=1`); and those that are written
as errors where nothing has failed: of a plugin that XLA has twice, a choice that Inductor leaves out, a fork that gRPC
does not follow, a ptxas for which the driver stands in, a nearly full disk and trials that are done (Ray), a release
(vLLM, NCCL's networks), what is gone already (rm, wandb, git), not there (lscpu, gdb), beside a state, code."""
WRONG_RESULTS = lazy_re(r"^# Out of bounds values : [1-9]")
"""nccl-tests, before its last line, which it prints all the same."""
OF_ALL = lazy_re(r"\d{1,9}/\d{1,9}")
AT_ZERO = lazy_re(r"^\D{0,40}(?<![\d.])0{1,9}(?![\d.])")
BAR_AT_ZERO = lazy_re(r"(?<![\d.])0/\d{1,9} \[")
"""A count before the first."""
BAR = lazy_re(r"\d/\d{1,9} \[\d")
LAST_ONE = lazy_re(r"\b(?:epoch|step|iteration)\b\W{0,3}(?P<last>[1-9]\d{0,8})/(?P=last)\b", re.IGNORECASE)
"""The last of all of them is done."""
SUMMED_UP = lazy_re(r"['\"]?\btrain_runtime\b['\"]?\s{0,40}[:=]")
"""Of the whole training (speed_metrics of transformers' Trainer, at its end): its loss and epoch stand beside."""
OF_A_SUMMARY = "wandb: "
"""wandb writes the last values once more when its process ends, however it ends."""
ENDS_AFTER_ALL = frozenset({"exiting", "stopping", "terminated"})
"""Words of trouble that a good end has too."""
GIT_REFUSED, LONGEST_REFUSAL = "git root error: Cmd('git') failed", 10
OF_GIT = lazy_re(r"\bcmdline: git |\bstderr: '|\bgit config --global ")
"""wandb's (sdk/lib/gitlib.py), and lines of what GitPython quotes of git's message behind it."""
RETRYING = lazy_re(
    r"\bretrying \((?P<attempt>\d{1,6})/(?P<most>\d{1,6})\)|, retrying (?P<first>\d{1,6})/(?P<of>\d{1,6}) after"
)
"""NCCL's, of a connection."""
UNRAISABLE = "Exception ignored in"
"""What follows was raised where nobody could catch it, and ended nothing (CPython's PyErr_WriteUnraisable)."""
OF_FRAMES = lazy_re("|".join(('  File "', re.escape(HEADER), UNRAISABLE, "    ")))
RAISED = lazy_re(r"(?:^|[\s\]:)])[A-Za-z_][\w.]{0,60}(?:Error|Exception|Exit|Interrupt|Warning)\b")
LETTERS = lazy_re(r"[^A-Za-z]+")
OPEN_FRAME = lazy_re(r'(?:^|\s)File "[^"\n]{0,1000}(?:"[^\n]{0,400})?$')


class CourseSeen(Struct, frozen=True, kw_only=True):
    """What a log's end shows."""

    course: Course
    words: str = ""
    """Of one that stands or is cut off."""
    trouble: tuple[tuple[int, str], ...] = ()
    """Lines that look like trouble behind the last that shows the job getting on: number and text."""

    moves: tuple[int, ...] = ()
    """Numbers of the last lines that show it getting on."""
    steps: tuple[int, ...] = ()
    """Numbers of the last lines that tell a step: these, and the first of each form, which by itself shows no more."""
    bars: frozenset[int] = frozenset()
    """Those of them that are a bar's, which tqdm draws once more when its program dies."""
    ended: int = 0
    """Number of the last line that tells a good end; 0: none."""
    shown: int = 0
    """Number of the last line that tells a good end or a step, though it be the first; 0: none."""
    retrying: bool = False
    end: tuple[tuple[int, str], ...] = ()
    """The last lines that are not empty."""
    asides: frozenset[int] = frozenset()
    """Numbers of lines of trouble that the job got on with each time before."""

    def stepped_after(self, line: int, *, raised: bool) -> bool:
        """A step is told behind this line, and no trouble behind the last step. `raised`: the line is an exception's,
        behind which a bar proves nothing."""
        return not self.trouble and any(number > line and not (raised and number in self.bars) for number in self.steps)

    def only_drawn_after(self, line: int) -> bool:
        """All that stands behind it is bars: of processes that a scheduler is ending."""
        behind = [text for number, text in self.end if number > line]
        return bool(behind) and all(BAR.search(text) for text in behind)

    def moved_after(self, line: int) -> int:
        """How many lines of progress stand behind it."""
        return sum(number > line for number in self.moves)

    def went_on_after(self, line: int) -> bool:
        """The job got on, or ended well, after what this line tells."""
        return self.well and (self.ended > line or self.moved_after(line) >= WENT_ON)

    @property
    def well(self) -> bool:
        return self.course in WELL and not self.trouble


class LogEnd:
    """Keeps the end of a log while it is read."""

    def __init__(self) -> None:
        self.text = b""

    def add(self, text: bytes) -> None:
        self.text = (self.text + text if len(text) < TAIL else text)[-TAIL:]

    def lines(self, all_lines: int) -> tuple[int, list[bytes]]:
        """The lines that are kept, and the number of the first. `all_lines`: how many the log has."""
        raw = self.text.split(b"\n")
        if not raw[-1]:
            raw.pop()
        return all_lines - len(raw) + 1, raw

    def seen(self, lines: int, *, since: int = 0) -> CourseSeen:
        """`since`: the line at which the last of several runs begins."""
        first, raw = self.lines(lines)
        numbered = [
            (first + index, part)
            for index, line in enumerate(raw)
            for part in line.decode("utf-8", "replace").split("\r")[-20:]
            if part.strip() and first + index >= since
        ]
        numbered = states(_without_asides(numbered))
        seen = course(numbered[-MOST_LINES:])
        end = [(number, text[:LONGEST]) for number, text in numbered if number not in seen.asides]
        return structs.replace(seen, end=tuple(end[-MOST_END:]))


def _without_asides(numbered: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without what wandb logs as an error where git refuses to tell it of a repository: it does without."""
    left: list[tuple[int, str]] = []
    until = 0
    for index, (number, text) in enumerate(numbered):
        if GIT_REFUSED in text:
            record = range(index + 1, min(index + 1 + LONGEST_REFUSAL, len(numbered)))
            until = max((at for at in record if OF_GIT.search(numbered[at][1])), default=index) + 1
        if index >= until:
            left.append((number, text))
    return left


def course(lines: Sequence[tuple[int, str]], *, ended_badly: bool = False) -> CourseSeen:
    """The course that numbered lines show. `ended_badly`: as was seen; a good end is a part's then."""
    if not lines:
        return CourseSeen(course="not shown")
    moves, begun, bars, ended, trouble = _marks(lines)
    asides = _lived_with(lines, moves, trouble)
    trouble = [index for index in trouble if index not in asides]
    ended = -1 if ended_badly else ended
    started = max((index for index, (_, text) in enumerate(lines) if OF_A_POD.search(text[:1000])), default=-1)
    on = moves[-1] if moves else -1
    after = tuple(lines[index][0] for index in moves[-MOST_MOVES:])
    steps = tuple(lines[index][0] for index in sorted({*moves, *begun})[-MOST_MOVES:])
    drawn = frozenset(lines[index][0] for index in bars)
    ended_line = lines[ended][0] if ended >= 0 else 0
    behind = max(on, ended, started)
    announced = {index + 1 for index in trouble if lines[index][1].rstrip().endswith(":")}
    behind = max(behind, *(index for index in begun if _begins(lines, index, bars, trouble)), -1)
    quoted = tuple(lines[index] for index in sorted(announced.union(trouble)) if behind < index < len(lines))
    if tries := RETRYING.search(lines[-1][1][:1000]):
        words = f"the log ends while a connection is tried again (try {tries['attempt'] or tries['first']} of "
        words += f"{tries['most'] or tries['of']})"
        return CourseSeen(course="stands", words=words, trouble=_few(quoted), retrying=True)
    if cut := _cut(lines):
        return CourseSeen(course="cut off", words=cut, trouble=_few(quoted))
    if behind < len(lines) - 1 and ended < 0 and (stands := standing(lines, on)):
        return CourseSeen(course="stands", words=stands, trouble=_few(quoted))
    over = ended >= 0 and ended >= on and UP.search(lines[ended][1][:1000]) is None
    gone = any(LEFT_BEHIND in text for _, text in lines[max(on, ended, 0) :]) or (
        ended < 0 and _is_ending(lines, moves)
    )
    on_or_not: Course = (
        "ended well" if over else "gets on" if max(on, ended, started) >= 0 and not gone else "not shown"
    )
    return CourseSeen(
        course=on_or_not,
        trouble=_few(quoted),
        moves=after,
        steps=steps,
        bars=drawn,
        ended=ended_line,
        shown=lines[behind][0] if behind >= 0 else 0,
        asides=frozenset(lines[index][0] for index in asides),
    )


def _is_ending(lines: Sequence[tuple[int, str]], moves: Sequence[int]) -> bool:
    """torchrun was told to end, and nothing behind that but some steps and its own words: no other start of the job."""
    told = max((index for index, (_, text) in enumerate(lines) if TOLD_TO_END in text), default=len(lines))
    behind = {*range(told + 1, len(lines))}.difference(moves)
    return len(lines) - MOST_KILLED <= told < len(lines) and all(OF_THE_AGENT in lines[index][1] for index in behind)


def _lived_with(lines: Sequence[tuple[int, str]], moves: Sequence[int], trouble: Sequence[int]) -> frozenset[int]:
    """Trouble in words behind which the job has got on again and again: a service that it does without."""
    alike: dict[str, list[int]] = {}
    for index in trouble:
        text = lines[index][1][:1000]
        if not (EXCEPTION.match(text) or ENDS.search(text) or NOT_A_NUMBER.search(text)):
            alike.setdefault(LETTERS.sub("", text), []).append(index)
    return frozenset(
        index
        for indices in alike.values()
        if sum(any(one < move < then for move in moves) for one, then in pairwise(indices)) >= MOST_ALIKE
        for index in indices
    )


def _begins(lines: Sequence[tuple[int, str]], index: int, bars: set[int], trouble: Sequence[int]) -> bool:
    """This first line of its form shows that the job came to its steps after the trouble before it: it is no bar that
    is drawn behind an exception, and no other rank's."""
    rank = writer(lines[index][1][:1000]).rank
    before = [lines[other][1][:1000] for other in trouble if other < index]
    return not any(
        (index in bars and RAISED.search(text) is not None) or writer(text).rank not in (None, rank) for text in before
    )


def _marks(lines: Sequence[tuple[int, str]]) -> tuple[list[int], list[int], set[int], int, list[int]]:
    """Indices of lines that show progress, of the first of each form that does not begin at zero, of those that are
    bars, of the last that tells a good end (-1: none), and those of trouble."""
    ended = -1
    moves: list[int] = []
    begun: list[int] = []
    bars: set[int] = set()
    trouble: list[int] = []
    shapes: dict[str, str] = {}
    drawn: set[str] = set()
    firsts: dict[str, int] = {}
    ignored = wrong = asked = False
    for index, (_, text) in enumerate(lines):
        line = text[:1000]
        if UNRAISABLE in line or (ignored and (HEADER in line or FRAME_WRITTEN.search(line))):
            ignored = True
            continue
        if ignored and OF_FRAMES.search(lines[index - 1][1][:1000]):  # a frame's source, or what was raised
            ignored = RAISED.search(line) is None
            continue
        ignored = False
        wrong = wrong or WRONG_RESULTS.search(line) is not None
        asked = asked or ORDERED.search(line) is not None
        no_number = NOT_A_NUMBER.search(line)
        bad = no_number or TROUBLE.search(line)
        if bad and not no_number and MILD.search(line):
            bad = None
        if bad and index and (frame := FRAME_WRITTEN.search(lines[index - 1][1][:1000])):
            bad = None if line[frame.start() :].startswith("    ") else bad  # the source of a frame says nothing
        if bad and bad[0].lower() in ENDS_AFTER_ALL and ENDED.search(line) and not DENIED.search(line):
            bad = None  # "completed successfully, exiting"
        step = PROGRESS.search(line)
        if (
            step is not None
            and not (line.startswith(OF_A_SUMMARY) or " NCCL INFO " in line)  # "pci0000:18/0000:18:01.0" of ports
            and (bad is None or step.start() < bad.start())
            and no_number is None
        ):
            shape = LETTERS.sub("", line[max(0, step.start() - 40) : step.end()])
            of_all = OF_ALL.search(step[0])  # of a bar the count, and not its clock
            place = of_all[0] if of_all else line
            if _moved(shapes.setdefault(shape, place), place, step.end()):
                moves += (*(first for first in (firsts.pop(shape, None),) if first is not None), index)
            elif shape not in drawn and not _at_zero(step[0], line):
                begun.append(index)
                firsts[shape] = index
            drawn.add(shape)
            if of_all or BAR.search(line):
                bars.add(index)
            told = line[: step.start()]  # "Training done: best at epoch 27"
            if LAST_ONE.search(line) or SUMMED_UP.search(line) or (ENDED.search(told) and not DENIED.search(line)):
                ended = index
        elif bad is not None:
            trouble.append(index)
            if DUMPED.search(line):
                ended = -1
        elif (
            UP.search(line)
            or (ENDED.search(line) and not DENIED.search(line) and not wrong)
            or (SHUT_DOWN.search(line) and (asked or not trouble or trouble[-1] < max(ended, 0, *moves[-1:])))
        ):
            ended = index
    return sorted(moves), begun, bars, ended, trouble


def _moved(first: str, then: str, end: int) -> bool:
    """The same words with another number; `end`: of the step. What else is told of the same step moves nothing."""
    return first != then and (first[:end] != then[:end] or LETTERS.sub("", first) == LETTERS.sub("", then))


def _at_zero(step: str, line: str) -> bool:
    return (BAR_AT_ZERO.search(line) if BAR.search(line) else AT_ZERO.search(step)) is not None


DUMPED = lazy_re(
    r"^(?:[\w./-]{1,200}: line \d{1,7}: \s{0,8}\d{1,8} )?(?:Aborted|Segmentation fault|Bus error|Illegal instruction|"
    r"Floating point exception|Trace/breakpoint trap)(?: \(core dumped\)|\s{2,}\S|\s*$)"
)
"""The shell's word for a program that a signal ended: what it had called done before was another part of it."""
NOT_A_NUMBER = lazy_re(NO_NUMBER, re.IGNORECASE)


def _few(lines: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
    """The first says most, and the last what was left of the job."""
    return lines if len(lines) <= MOST_TROUBLE else (*lines[: MOST_TROUBLE // 2], *lines[-(MOST_TROUBLE // 2) :])


def _cut(lines: Sequence[tuple[int, str]]) -> str:
    """Where the last lines are a traceback without its end."""
    number, last = lines[-1]
    last = last[:1000]
    before = lines[-2][1][:1000] if len(lines) > 1 else ""
    plain = unprefixed(last).strip()
    in_frame = FRAME.search(unprefixed(before).lstrip()) is not None and not EXCEPTION.match(plain)
    if HEADER in last or OPEN_FRAME.search(last) or in_frame:
        return f"the log is cut off: it ends in the middle of a traceback at line {number}, before what was raised"
    return ""
