"""A rule of texts that a shell is given as a word: Q40."""

from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, Word
from gpudoctor.lint.quotes import unclosed
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER
from gpudoctor.lint.shell.syntax import read_script
from gpudoctor.lint.shell.wrappers import SHELLS

MOST = 1 << 14
_ARGUMENTS = "ARGS=\" --nproc-per-node=4 --partition '{}'\"\n"
_RUN = 'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py $ARGS"\n'


@rule(
    "Q40",
    title="What bash -c is given is whole: its quotes closed, its lines continued",
    source="bash(1): the word is read as a text of its own; bash: unexpected EOF while looking for matching `''",
    bad=(
        HEADER.replace("nodes=2", "nodes=1") + _ARGUMENTS.replace("}'", "}").format("type:layer") + _RUN,
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name \'big"\n',
        'srun bash -c "if [ -d a ]; then torchrun --standalone --nproc-per-node=4 train.py"\n',
    ),
    good=(
        HEADER.replace("nodes=2", "nodes=1") + _ARGUMENTS.format("type:layer") + _RUN,
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name it\\\\\'s"\n',
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name $(echo \\"$X\\")"\n',
    ),
)
def broken_text_within(job: LintJob) -> Iterator[LintFinding]:
    """A quote inside of double quotes is a letter to the outer shell, and a quote again to the shell that gets the
    word; and lines that a here-document or a variable brings need their backslashes there."""
    told: set[int] = set()
    around = (outer for launch in job.launches[: look.SIBLINGS] for outer in launch.invocation.within)
    # a text that is broken may hide the start that it holds
    others = (each for each in job.invocations[: look.SIBLINGS] if each.program in SHELLS)
    for outer in (*around, *others):
        word = _text_of(outer)
        if word is None or word.span.start in told or len(word.shown) > MOST or not _STARTS.search(word.shown):
            continue
        told.add(word.span.start)
        fault = _fault(_plain(word))
        if fault is not None and not (fault[0].startswith("ends") and read_script(job.text).trailing):  # Q01 says it
            yield LintFinding(
                span=word.span,
                summary=f"the text that {outer.program} -c gets {fault[0]}",
                happens=f"{outer.program}: {fault[1]}",
                fix=fault[2],
            )


_STARTS = lazy_re(r"\b(?:torchrun|python[\d.]*|accelerate|deepspeed|mpirun|srun|\w+\.(?:py|sh))\b|\$")


def _fault(text: str) -> tuple[str, str, str] | None:
    """What stands there, what comes of it, and what to write."""
    at = unclosed(text)
    if at is not None:
        return (
            f"has a quote that nothing closes: {_shown(text, at)}",
            "unexpected EOF while looking for a matching quote; nothing starts.",
            "Close the quote in the variable, or in the line, that holds it.",
        )
    read = read_script(text)
    if read.refused is not None and read.refused.kind == "compound":
        what, wanted = read.refused.what, read.refused.wanted
        return (
            f"never closes its {what}: {wanted} is missing",
            "syntax error: unexpected end of file; nothing starts.",
            f"Write {wanted} where it ends.",
        )
    if "\n" not in text:
        return None
    for at in (*read.trailing, *read.dashed):
        return (
            f"ends its command before its last line: {_shown(text, max(0, at - 40))}",
            "the rest is another command: command not found; the program runs without it.",
            "End each line but the last with a backslash, the very last character.",
        )
    return None


def _shown(text: str, at: int) -> str:
    return " ".join(text[at : at + 50].split())


def _text_of(outer: Invocation) -> Word | None:
    if outer.program not in SHELLS:
        return None
    shown = [word.shown for word in outer.words]
    at = next((index for index, each in enumerate(shown) if each.startswith("-") and each.endswith("c")), None)
    return outer.words[at + 1] if at is not None and at + 1 < len(outer.words) else None


def _plain(word: Word) -> str:
    """The text with letters for what is not known of it."""
    text = word.shown
    for expansion in word.expansions:
        if expansion.value is None:
            text = text.replace(expansion.raw, "x")
    return text
