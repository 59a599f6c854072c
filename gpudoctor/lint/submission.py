"""`gpudoctor sbatch`: the words of a command line of sbatch -> what would be submitted, judged as one text.

The text is the command line itself, with the script behind it: so the options in front of the script hold over its
header, and its arguments are `$1`, `$2` there.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gpudoctor import programs
from gpudoctor.errors import BadInput
from gpudoctor.launchers.slurm import SBATCH
from gpudoctor.lint.asked import AskedFacts, command_text, decoded, text_and_codec
from gpudoctor.lint.beside import named_by, with_modules
from gpudoctor.lint.config import config_for
from gpudoctor.lint.model import Span, Word
from gpudoctor.lint.several import JudgedStart, judged
from gpudoctor.lint.starts import COMMAND_LINE, SourceFile, StartFiles

OWN_FLAGS = ("--force", "--help", "-h", "--no-color")
OWN_VALUES = ("--facts",)
ONLY_SAYS = ("help", "usage", "version")
"""Options with which sbatch submits nothing."""
STANDARD_INPUT = "standard-input.sbatch"
VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_EXPORT": "export", "SBATCH_GPUS": "gpus", "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SBATCH_GRES": "gres", "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos", "SBATCH_SIGNAL": "signal", "SBATCH_TIMELIMIT": "time",
}  # fmt: skip
"""What sbatch reads between header and command line, and the option that each is (env_vars of its opt.c, 22.05)."""
SHOWN = (
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gres", "gpus", "gpus-per-node", "gpus-per-task", "nodelist",
    "array", "time", "partition", "account", "qos",
)  # fmt: skip
"""Of what is asked for, what decides about a training and its place in the queue."""


class Submitted(Struct, frozen=True):
    """The words of the command line, taken apart."""

    own: tuple[str, ...]
    """Options of gpudoctor's."""
    options: tuple[str, ...]
    script: str | None = None
    """None: sbatch reads it from standard input, or has it in --wrap."""
    arguments: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    """Of sbatch's options."""
    judged: tuple[str, ...] = ()
    """Options without those of a site's own, of which nobody here knows whether a value follows."""

    @property
    def passed(self) -> tuple[str, ...]:
        """To sbatch, unchanged."""
        return (*self.options, *((self.script, *self.arguments) if self.script is not None else ()))


def taken_apart(words: Sequence[str]) -> Submitted:
    """Ours stand in front of the script only: what follows it is its own."""
    own: list[str] = []
    options: list[str] = []
    known: list[str] = []
    names: set[str] = set()
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, _ = word.partition("=")
        if word in OWN_FLAGS or (name in OWN_VALUES and equals):
            own.append(word)
            at += 1
        elif word in OWN_VALUES:
            own += words[at : at + 2]
            at += 2
        elif word.startswith("-") and word not in ("-", "--"):
            read = SBATCH.read([_word("sbatch"), _word(word), _word("x")])
            names |= {option.name for option in read.options}
            takes_next = read.end == 3
            is_known = any(option.known for option in read.options)
            if not equals and not is_known:
                following = words[at + 1] if at + 1 < len(words) else "-"  # sbatch knows, we do not
                takes_next = not following.startswith("-") and not Path(following).is_file()
            options += words[at : at + 1 + takes_next]
            known += words[at : at + 1 + takes_next] if is_known else ()
            at += 1 + takes_next
        else:
            if word == "--":
                options.append(word)
                at += 1
            break
    rest = words[at:]
    return Submitted(
        tuple(own), tuple(options), rest[0] if rest else None, tuple(rest[1:]), frozenset(names), tuple(known)
    )


def _word(text: str) -> Word:
    return Word(raw=text, text=text, shown=text, span=Span(0, len(text), 1))


def judge(submitted: Submitted, facts: AskedFacts, given: bytes | None) -> JudgedStart:
    """What would be submitted. `given`: the script on standard input. Raises `BadInput`."""
    beside: tuple[SourceFile, ...] = ()
    options = [f"--{VARIABLES[name]}={value}" for name, value in os.environ.items() if name in VARIABLES and value]
    words = ["sbatch", *options, *submitted.judged]
    if submitted.script is not None:
        words += [submitted.script, *submitted.arguments]
        place = _found(submitted.script)
        beside = named_by(SourceFile(place, *text_and_codec(place, submitted.script))).files
    elif given is not None:
        try:
            beside = (SourceFile(STANDARD_INPUT, *decoded(given)),)
        except ValueError as error:
            raise BadInput(f"standard input {error}") from None
        words.append(STANDARD_INPUT)
    if beside and not beside[0].text.startswith("#!"):
        raise BadInput(f"{beside[0].file}: sbatch takes no script without #! in its first line")
    start = with_modules(StartFiles(SourceFile(COMMAND_LINE, command_text(words)), beside))
    return judged(start, facts, config=config_for(submitted.script or os.path.join(programs.folder() or "/", "x")))  # noqa: PTH118


def _found(script: str) -> str:
    """As sbatch looks for it: a file, else on the PATH."""
    if "/" in script or Path(script).exists():
        return script
    return programs.find(script) or script


def asks_for(done: JudgedStart) -> str:
    """ "nodes 2, ntasks-per-node 4": command line over header."""
    options = done.linted.job.sbatch if done.linted is not None else {}
    return ", ".join(f"{name} {options[name].value or ''}".strip() for name in SHOWN if name in options)
