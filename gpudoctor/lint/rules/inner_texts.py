"""A rule of texts that a shell is given as a word: Q40."""

from collections.abc import Iterator

from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, Word
from gpudoctor.lint.quotes import unclosed
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER
from gpudoctor.lint.shell.wrappers import SHELLS

_ARGUMENTS = "ARGS=\" --nproc-per-node=4 --partition '{}'\"\n"
_RUN = 'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py $ARGS"\n'


@rule(
    "Q40",
    title="What bash -c is given has its quotes in pairs",
    source="bash(1): the word is read as a text of its own; bash: unexpected EOF while looking for matching `''",
    bad=(
        HEADER.replace("nodes=2", "nodes=1") + _ARGUMENTS.replace("}'", "}").format("type:layer") + _RUN,
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name \'big"\n',
    ),
    good=(
        HEADER.replace("nodes=2", "nodes=1") + _ARGUMENTS.format("type:layer") + _RUN,
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name it\\\\\'s"\n',
        'srun bash -c "torchrun --standalone --nproc-per-node=4 train.py --name $(echo \\"$X\\")"\n',
    ),
)
def open_quote_within(job: LintJob) -> Iterator[LintFinding]:
    """A quote inside of double quotes is a letter to the outer shell, and a quote again to the shell that gets the
    word: in the variables that are put together there, each has to be closed."""
    told: set[int] = set()
    for launch in job.launches[: look.SIBLINGS]:
        for outer in launch.invocation.within:
            word = _text_of(outer)
            if word is None or word.span.start in told or unclosed(_plain(word)) is None:
                continue
            told.add(word.span.start)
            at = unclosed(_plain(word)) or 0
            yield LintFinding(
                span=word.span,
                summary=f"the text that {outer.program} -c gets has a quote that nothing closes:"
                f" {' '.join(_plain(word)[at : at + 40].split())}",
                happens=f"{outer.program}: unexpected EOF while looking for a matching quote; nothing starts.",
                fix="Close the quote in the variable, or in the line, that holds it.",
            )


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
