"""A child that reads what a run has left: its logs by `explain`, the kernel's log, how it ended."""

import contextlib
import io
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from gpudoctor import cost
from gpudoctor.bounded import GIB
from gpudoctor.causes import CAUSES
from gpudoctor.envelope import encode
from gpudoctor.explain.endings import ending_of
from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.knowledge.credentials import without_credentials
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.left import program_of
from gpudoctor.read.kernel_log import KernelLine
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run import attempts, verdict
from gpudoctor.run.end import ENDING_SECONDS, KERNEL, EndTold, RunEnded, by_whom
from gpudoctor.run.kernel import of_job
from gpudoctor.run.kubernetes import kubernetes_word
from gpudoctor.run.slurm import slurms_word
from gpudoctor.sure import CERTAIN, PRIMARY

PROCESSOR_SECONDS = 12.0
MEMORY = 2 * GIB
STOOD_LINES = 3
READER_LEFT = "whoever read its output has gone, as `head` does after its lines"
BROKEN_PIPE = "BrokenPipeError: [Errno 32]"
ENDS_A_STALL = ("cancelled", "time-limit", "session-closed", "rank-died")
"""Why a job that stood still has ended; why it stood still is what its user wants to know."""
EXPLANATION = "explanation.json"
LONGEST = 300
MOST_EVIDENCE = 2


def main(arguments: list[str]) -> None:
    """The child: the run as JSON in, the answer as JSON out."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    cost.limit_child(PROCESSOR_SECONDS, MEMORY)
    sys.stdout.buffer.write(msgspec.json.encode(told(msgspec.json.decode(arguments[0], type=RunEnded))))


def told(ended: RunEnded) -> EndTold:
    """What is said at the end of a run that has not ended well, or that torchrun has started again."""
    every = attempts.numbers(ended.attempts)
    if not every:
        return _told_of(ended)
    before = [_first_words(number, ended) for number in every[:-1][-attempts.MOST_TOLD :]]
    again = f"torchrun has started it again {counted(len(every) - 1, 'time')}: {'; '.join(before)}"
    if not ended.status:
        return EndTold(lines=(again,))
    last = _told_of(attempts.of_attempt(ended, every[-1]))
    return structs.replace(last, lines=(again, f"attempt {every[-1] + 1}, the last one:", *last.lines))


def _first_words(number: int, ended: RunEnded) -> str:
    """ "attempt 1: rank 1 died of ValueError: bad  [program-error]"."""
    own = attempts.of_attempt(ended, number)
    answer = _explained(own, (), keep=False)
    first = answer.causes[0] if answer.causes and answer.causes[0].confidence >= PRIMARY else None
    if (seen := verdict.found(own, answer)) is not None:
        return f"attempt {number + 1}: {_shown(seen.summary)}  [{seen.cause}]"
    return f"attempt {number + 1}: {f'{_shown(first.summary)}  [{first.cause}]' if first else 'not decided'}"


def _told_of(ended: RunEnded) -> EndTold:
    interrupted = next((seen for seen in ended.signals if seen.by_terminal and seen.number == signal.SIGINT), None)
    if interrupted is not None and ended.seconds - interrupted.seconds < ENDING_SECONDS:
        return EndTold(lines=(f"it was interrupted at the terminal after {interrupted.seconds:.0f} s",))
    if ended.status == -signal.SIGPIPE:
        return EndTold(lines=(f"{READER_LEFT}: SIGPIPE",))
    kernel = of_job(ended)
    answer = _explained(ended, kernel.lines)
    first = answer.causes[0] if answer.causes and answer.causes[0].confidence >= PRIMARY else None
    if ended.reader_left and (first is None or first.cause in verdict.FOLLOWS) and _met_no_reader(ended):
        return EndTold(lines=(f"{READER_LEFT}: its next line met that ({BROKEN_PIPE})",))
    signals = [seen for seen in ended.signals if seen.number in verdict.TOLD]
    lines = [f"it got {by_whom(seen)} after {seen.seconds:.0f} s" for seen in signals][:3]
    if ended.stood:
        lines = [*lines, "it stood still shortly before its end", *ended.stood[:STOOD_LINES]]
    of_memory = verdict.for_memory(ended, kernel)
    seen = verdict.found(ended, answer, of_memory, slurms_word(ended) or kubernetes_word(ended))
    said = seen.cause if seen is not None else first.cause if first is not None else ""
    if ended.stood_cause and (not said or said in ENDS_A_STALL or (seen is None and said in verdict.FOLLOWS)):
        restart = CAUSES[ended.stood_cause].restart
        lines.append(f"start it again: {restart}")
        return EndTold(lines=tuple(lines), cause=ended.stood_cause, confidence=ended.stood_confidence, restart=restart)
    if seen is not None:
        return EndTold(
            lines=(*lines, *_of_seen(seen, ended, answer)),
            cause=seen.cause,
            confidence=seen.confidence,
            variant=seen.variant,
            restart=seen.restart,
        )
    if first is not None:
        return EndTold(
            lines=(*lines, *_of_cause(first, answer)),
            cause=first.cause,
            confidence=first.confidence,
            restart=answer.restart,
            exclude=answer.exclude,
        )
    return EndTold(lines=(*lines, *_undecided(ended, answer, kernel.unread)))


def _met_no_reader(ended: RunEnded) -> bool:
    """Whether a program of it wrote to a pipe that nobody reads any more."""
    for name in ended.logs:
        with contextlib.suppress(OSError):
            if BROKEN_PIPE.encode() in Path(ended.folder, name).read_bytes():
                return True
    return False


def _of_seen(seen: verdict.Found, ended: RunEnded, answer: Explanation) -> Iterator[str]:
    sure = "" if seen.confidence >= CERTAIN else f" ({seen.confidence:.2f} of 1)"
    yield f"cause: {_shown(seen.summary)}{sure}  [{seen.cause}]"
    yield from verdict.others(ended)
    if answer.causes and answer.causes[0].cause == seen.cause:
        for line in answer.causes[0].evidence[:1]:
            yield f"  {_name(line.file)}:{line.line} | {_shown(line.text)}"
    yield f"fix: {_told(CAUSES[seen.cause].remedy(seen.variant, who='that rank').text)}"
    yield f"start it again: {seen.restart}"


def _explained(ended: RunEnded, kernel: tuple[KernelLine, ...], *, keep: bool = True) -> Explanation:
    folder = Path(ended.folder)
    if kernel and ended.folder:
        text = "".join(f"[{line.seconds or 0.0:12.6f}] {line.text}\n" for line in kernel)
        with contextlib.suppress(OSError):  # a full disk
            (folder / KERNEL).write_text(text, encoding="utf-8", errors="backslashreplace")
            (folder / KERNEL).chmod(0o600)
    names = (*ended.logs, *((KERNEL,) if kernel else ()))
    logs = [str(folder / name) for name in names if ended.folder and (folder / name).is_file()]
    if not logs:
        return Explanation()
    answer = explain(logs, stdin=io.BytesIO(), typed=False, program=program_of(logs))
    if not keep:
        return answer
    place = folder / EXPLANATION
    try:
        place.touch(mode=0o600)
        place.write_bytes(encode(answer))
    except OSError:  # a full disk: half of an answer is none
        place.unlink(missing_ok=True)
    return answer


def _of_cause(first: LogCause, answer: Explanation) -> Iterator[str]:
    sure = "" if first.confidence >= CERTAIN else f" ({first.confidence:.2f} of 1)"
    yield f"cause: {_shown(first.summary)}{sure}  [{first.cause}]"
    said = {line.text: line for line in reversed(first.evidence)}  # one line may stand in several of our logs
    for line in [line for line in first.evidence if said[line.text] is line][:MOST_EVIDENCE]:
        yield f"  {_name(line.file)}:{line.line} | {_shown(line.text)}"
    yield f"fix: {_told(first.fix.text)}"
    where = f", without {listed(answer.exclude)}" if answer.exclude else ""
    yield f"start it again: {answer.restart}{where}"


def _undecided(ended: RunEnded, answer: Explanation, unread: str) -> Iterator[str]:
    ending = ending_of({"exitcode": str(ended.status)})
    if ended.status < 0 and not any(seen.number == -ended.status for seen in ended.signals):
        name = (
            signal.Signals(-ended.status).name if -ended.status in list(signal.Signals) else f"signal {-ended.status}"
        )
        oom = {
            None: "whether for want of memory is not told",
            0: "no process of its cgroup was ended for want of memory",
        }
        why = f"; {oom.get(ended.memory.kills, '')}" if ended.status == -signal.SIGKILL else ""
        more = f" and {unread}" if why and unread else ""
        crashed = ", as after a crash in native code" if ending is not None and ending.cause == "native-crash" else ""
        yield f"{name} ended the command itself{crashed}{why}{more}"
    if answer.causes:
        best = answer.causes[0]
        yield f"not decided; it may be ({best.confidence:.2f} of 1): {_shown(best.summary)}  [{best.cause}]"
    elif answer.unknown:
        yield f"not decided: {_shown(answer.unknown)}"
    elif ended.log_ended:
        yield "its last words are not kept"
    elif answer.lines:
        yield "its output names no cause"
    elif ended.logs:
        yield "it said nothing"
    else:
        yield "nothing that it said was kept"
    for line in answer.trouble[-MOST_EVIDENCE:]:
        yield f"  {_name(line.file)}:{line.line} | {_shown(line.text)}"


def _name(file: str) -> str:
    """ "output.log", "nodes/n2/output.log"."""
    path = Path(file)
    return "/".join(path.parts[-3:]) if path.parts[-3:-2] == ("nodes",) else path.name


def _shown(text: str) -> str:
    """A line of a log for the terminal: short, and without what is written as a password."""
    words = " ".join(without_credentials(text[: 4 * LONGEST]).split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."


def _told(fix: str) -> str:
    """What fits of a fix, in whole sentences: `report` and `explain` tell all of it."""
    shown = _shown(fix)
    sentences = shown.rpartition(". ")[0] if shown.endswith("...") else ""
    return f"{sentences}." if sentences else shown
