"""docs/tutorials.md, from the table."""

import shlex
from collections.abc import Iterator

from gpudoctor.knowledge.superseded import dotted, superseded
from gpudoctor.knowledge.trainer_arguments import RELEASES, TODAY
from tests.tutorials import ROWS
from tests.tutorials.row import LINE, TITLES, Row

SHORT = 40
"""A line of more characters is not repeated in the command."""
HEAD = """<!-- Written by docs/generate.py; edit tests/tutorials/ instead. -->
# You follow an old tutorial

*"It worked for whoever wrote it, and the lines are everywhere."*

Tutorials on multi-GPU PyTorch of 2018 to 2023 are still copied, and much of what they teach has moved since. Below are
their lines, one by one: what each does today, what to write, and the command that says so about your own. Lines that
are right as they are stand here too. Each is a test (tests/tutorials).

Which release of Lightning knew which argument of its Trainer: [below](#arguments-of-lightnings-trainer).
"""
TRAINER = """## Arguments of Lightning's Trainer

Those that are gone: the first release that was read with each, and the first without it. From the sources of
pytorch-lightning 0.5 to 2.6.

| argument | there in | gone in | today |
|---|---|---|---|
"""
TAIL = """
## What to do next

- What a start will do before it is started: [`gpudoctor lint`](lint.md). A start for today's versions, from nothing:
  [`gpudoctor launch`](launch.md).
- A log of what happened: [`gpudoctor explain`](explain.md). A checkpoint: [`gpudoctor checkpoint`](checkpoint.md).
- Whether parallel training computes the right thing here: [`gpudoctor train-test`](train-test.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join((HEAD, *_sections(), TRAINER + "".join(_arguments()), TAIL.lstrip("\n")))


def _arguments() -> Iterator[str]:
    for name in TODAY:
        entry = superseded("argument", name)
        assert entry is not None
        first, gone = RELEASES[name]
        yield f"| `{name}` | {dotted(first)} | {dotted(gone)} | `{entry.whole}` |\n"


def _sections() -> Iterator[str]:
    for title in TITLES:
        yield f"## {title}\n"
        for row in ROWS:
            if row.title == title:
                yield _row(row)


def _row(row: Row) -> str:
    parts = [f"### {row.about}", _code(row.line, "text")]
    if row.environment:
        parts.append(f"with {', '.join(f'`{name}={value}`' for name, value in row.environment.items())}")
    parts.append(f"Today: {row.today}")
    parts.append(f"Write:\n\n{_code(row.write, _language(row.write))}" if row.write else "It is right as it is.")
    short = shlex.quote(row.line) if len(row.line) <= SHORT and "\n" not in row.line else "THE LINE"
    parts.append(f"Told by: `{row.command.replace(LINE, short)}`")
    return "\n\n".join(parts) + "\n"


def _code(text: str, language: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _language(code: str) -> str:
    """Shell lines begin with what one calls in a shell."""
    shell = ("gpudoctor ", "torchrun ", "export ", "unset ", "python ", "srun ", "pip ", "horovodrun ", "gcloud ")
    return "sh" if code.lstrip().startswith(shell) else "python"
