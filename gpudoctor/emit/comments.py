"""The comments that all formats but JSON share: what the file is, and each variable's reason."""

import textwrap
from collections.abc import Callable, Iterable, Iterator

from gpudoctor.command import is_sayable
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion

WIDTH = 100


class CannotExpress(BadInput):
    """A value that this format has no way to write; the message is one line for the user."""


def sayable(suggestion: Suggestion) -> str:
    """The value of a suggestion that is to stand as it is. Raises `CannotExpress`.

    A line to paste is one line, and shows as itself: no control character reaches a terminal in it.
    """
    if not is_sayable(suggestion.value):
        raise CannotExpress(
            f"{suggestion.name}={ascii(suggestion.value)[:200]} holds what no line to paste can: a line break, a "
            "control character, or a letter that does not show as itself; --format json spells it out"
        )
    return suggestion.value


def comment(text: str) -> Iterator[str]:
    """A text as comment lines. Nothing in it can end the comment: every line break and control character is a blank."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    for line in textwrap.wrap(plain, WIDTH - 2, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def header(advice: Advice, usage: str) -> Iterator[str]:
    """What stands at the head of every file; `usage` says how to load it."""
    version = f"NCCL {advice.nccl_version}" if advice.nccl_version else "an NCCL of unknown version"
    yield from comment(f"gpudoctor env, for {version}. {usage}")
    if advice.scope:
        yield from comment(advice.scope)


def about(suggestion: Suggestion) -> Iterator[str]:
    """Why a variable is set, for whom that is right, and how to see that it worked."""
    label = {"needed": "", "work-around": "Work-around. ", "debugging": "Debugging. "}[suggestion.kind]
    yield from comment(label + suggestion.reason)
    if suggestion.replaces is not None:
        yield from comment(f"Replaces {suggestion.replaces!r} ({suggestion.replaces_from}).")
    yield from comment(f"Holds for: {suggestion.holds_for}.")
    yield from comment(f"Verify: {suggestion.verify}.")


def footer(advice: Advice) -> Iterator[str]:
    """What is right as it is, and what could not be judged."""
    for variable in advice.present:
        other = "" if variable.value == variable.suggested else f"; without it, {variable.suggested} would be suggested"
        yield from comment(f"{variable.name}={variable.value} is set already ({variable.origin}){other}.")
    for open_question in advice.unjudged:
        yield from comment(f"Not judged: {open_question.what} ({open_question.reason}).")
    if advice.silent:
        yield from comment(advice.silent)


def document(advice: Advice, usage: str, line: Callable[[Suggestion], str]) -> str:
    """The whole file: head, each variable under its reason, foot."""
    blocks: list[Iterable[str]] = [header(advice, usage)]
    blocks += [[*about(suggestion), line(suggestion)] for suggestion in advice.suggestions]
    blocks.append(footer(advice))
    texts = ["\n".join(block) for block in blocks]
    return "\n\n".join(text for text in texts if text) + "\n"
