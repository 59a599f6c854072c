"""The answer of `gpudoctor explain` -> terminal: the first cause with its lines, what to do, what else it may be."""

from rich.console import Console
from rich.text import Text

from gpudoctor.causes import CAUSES
from gpudoctor.explain.report import Explanation, Line, LogCause
from gpudoctor.knowledge.wording import counted, listed, ranges, shortened
from gpudoctor.render.hang import MOST_ALTERNATIVES, MOST_UNREAD
from gpudoctor.render.prose import show, show_command
from gpudoctor.render.words import safe
from gpudoctor.sure import CERTAIN

UNDECIDED = 0.5
MOST_EVIDENCE = 6
MOST_CONSEQUENCES = 6
MOST_NODES = 3
LONGEST_LINE, LONGEST_FIRST = 160, 480
"""Two lines of a terminal, and six for the one that decides; `--json` has the rest."""


def show_explanation(answer: Explanation, screen: Console) -> None:
    """Everything: the cause, or that there is none; what could not be read."""
    names = len(answer.files) > 1
    if answer.causes and answer.causes[0].confidence >= UNDECIDED:
        _show_cause(answer.causes[0], screen, names)
        others = answer.causes[1:]
    else:
        others = answer.causes
        if answer.unknown:
            show(f"undecided {answer.unknown}", screen, style="bold", head="bold magenta")
            for line in (*answer.story[:1], *answer.story[1:][-2:]) if not others else ():
                _show_line(line, screen, names)
        if answer.advice:
            show(f"Fix: {answer.advice}", screen, indent=2)
    if others:
        screen.print()
        show("Candidates:" if others is answer.causes else "Also possible:", screen, style="bold")
        said = [answer.unknown or ""] if others is answer.causes else [answer.causes[0].summary]
        for cause in others[:MOST_ALTERNATIVES]:
            # where nothing is decided, whoever reads it tries what is told of the likeliest
            _show_other(cause, screen, names, said, advised=cause is answer.causes[0] and not answer.advice)
            said.append(cause.summary)
        if len(others) > MOST_ALTERNATIVES:
            show(f"and {len(others) - MOST_ALTERNATIVES} more (--json lists them)", screen, indent=2, style="dim")
    _show_consequences(answer, screen, names)
    _show_course(answer, screen, names)
    if answer.causes or answer.unknown:
        screen.print()
    show(verdict(answer), screen, style="bold green" if answer.well else "bold")
    _show_unreadable(answer, screen)


GUESSED = "Whether anything failed is not shown; if it did, its words are most like those of that class"


def show_with_class(answer: Explanation, screen: Console) -> None:
    """With what programs are told of it."""
    show_explanation(answer, screen)
    if answer.kind is not None:
        nodes = f", without {', '.join(map(safe, answer.exclude))}" if answer.exclude else ""
        show(f"Class: {answer.kind}; to blame: {answer.blame}; start it again: {answer.restart}{nodes}", screen)
        if not (answer.causes or answer.unknown or answer.well):
            show(GUESSED, screen, style="dim")


def _show_cause(cause: LogCause, screen: Console, names: bool) -> None:
    show(f"cause {_on(cause)}{cause.summary}  [{cause.cause}]", screen, style="bold", head="bold red")
    for number, line in enumerate(cause.evidence[:MOST_EVIDENCE]):
        _show_line(line, screen, names, longest=LONGEST_LINE if number else LONGEST_FIRST)
    if len(cause.evidence) > MOST_EVIDENCE:
        show(f"and {len(cause.evidence) - MOST_EVIDENCE} more (--json lists them)", screen, indent=2, style="dim")
    if cause.meaning:
        show(cause.meaning, screen, indent=2)
    show(f"Fix: {cause.fix.text}", screen, indent=2)
    for command in cause.fix.commands:
        show_command(command, screen)
    if cause.confidence < CERTAIN:
        test = f". To confirm: {cause.confirm}" if cause.confirm else ""
        show(f"How sure: {cause.confidence:.2f} of 1{test}", screen, indent=2)


def _on(cause: LogCause) -> str:
    """Where it happened, in a few words, unless the summary says so itself."""
    unsaid = bool(cause.nodes) and not any(node in cause.summary for node in cause.nodes)
    return f"on {listed(cause.nodes, MOST_NODES)}: " if unsaid else ""


def _show_other(cause: LogCause, screen: Console, names: bool, said: list[str], *, advised: bool) -> None:
    """What was said before is not said again: then the kind of cause is named alone. `advised`: with its fix."""
    repeated = any(cause.summary in sentence for sentence in said)
    known = CAUSES.get(cause.cause)
    words = known.title if repeated and known else cause.summary
    show(f"{cause.confidence:.2f} {words}  [{cause.cause}]", screen, indent=2)
    if cause.evidence and (not repeated or len(said) == 1):
        longest = LONGEST_FIRST if len(said) == 1 else LONGEST_LINE
        _show_line(cause.evidence[0], screen, names, indent=4, longest=longest)
    test = known.confirm if known and cause.confirm and cause.confirm in said else cause.confirm
    if test:
        show(f"To confirm: {test}", screen, indent=4, style="dim")
    said.append(test)
    if advised:
        show(f"If so: {cause.fix.text}", screen, indent=4)


def _show_line(line: Line, screen: Console, names: bool, indent: int = 2, longest: int = LONGEST_LINE) -> None:
    """A line of a log, with where it stands; it is never wrapped by us, so that it can be searched for."""
    place = f"{line.file}:{line.line}" if names else f"line {line.line}"
    screen.print(Text(safe(f"{' ' * indent}{place} | {shortened(line.text, longest)}"), style="dim"), soft_wrap=True)


def _show_consequences(answer: Explanation, screen: Console, names: bool) -> None:
    if not answer.consequences:
        return
    screen.print()
    decided = answer.causes and answer.causes[0].confidence >= UNDECIDED
    show("What follows from it:" if decided else "What was seen besides:", screen, style="bold")
    for line in answer.consequences[:MOST_CONSEQUENCES]:
        _show_line(line, screen, names)
    if len(answer.consequences) > MOST_CONSEQUENCES:
        more = len(answer.consequences) - MOST_CONSEQUENCES
        show(f"and {more} more (--json lists them)", screen, indent=2, style="dim")


def _show_course(answer: Explanation, screen: Console, names: bool) -> None:
    """What is known without a cause: where the log ends or stands, and its lines that look like trouble."""
    if answer.well:
        return
    if answer.starts:
        show(f"note {answer.starts}", screen, style="bold", head="bold magenta")
    if answer.course_words and (not answer.causes or answer.causes[0].confidence < UNDECIDED):
        show(f"note {answer.course_words}", screen, style="bold", head="bold magenta")
    if answer.trouble:
        show("Lines that look like trouble:", screen, style="bold")
        for line in answer.trouble:
            _show_line(line, screen, names)


def verdict(answer: Explanation) -> str:
    """ "1 cause found in 3,412 lines of 2 files; ranks 0-3 speak"."""
    decide = "does" if answer.lines == 1 else "do"
    amount = f"{answer.lines:,} line{'' if answer.lines == 1 else 's'}"
    if len(answer.files) > 1:
        amount += f" of {counted(len(answer.files), 'file')}"
    speak = f"; ranks {ranges(answer.ranks)} speak" if len(answer.ranks) > 1 else ""
    if not answer.files:
        return "Nothing could be read"
    if answer.causes and answer.causes[0].confidence >= UNDECIDED:
        return f"A cause was found in {amount}{speak}"
    if answer.causes or answer.unknown:
        return f"Something failed, and {amount} {decide} not decide what{speak}"
    if not answer.lines:
        zeros = "holds zero bytes and nothing else: its text was never written, or is lost"
        return f"Cannot tell: the log {zeros if answer.bytes else 'is empty'}"
    if answer.well:
        # of a rank that went without a word the last line is a step too
        why = "the job ended well" if answer.course == "ended well" else "the job gets on, as far as this text goes"
        return f"Nothing wrong found in {amount}: {why}{speak}"
    shown = "" if answer.trouble or answer.course_words else "; none shows the job getting on, or ending well"
    return f"No fault that I know in {amount}{shown}{speak}"


def _show_unreadable(answer: Explanation, screen: Console) -> None:
    if not answer.unreadable:
        return
    show("Could not read:", screen, style="bold magenta")
    for number, (file, reason) in enumerate(answer.unreadable.items()):
        if number == MOST_UNREAD:
            show(f"and {len(answer.unreadable) - MOST_UNREAD} more (--json lists them)", screen, indent=2)
            break
        show(f"{file}: {reason}", screen, indent=2)
