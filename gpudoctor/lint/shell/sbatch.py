"""`#SBATCH` lines, and the options of sbatch on a command line."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import structs

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launchers.slurm import SBATCH
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Option, SbatchOption, Word
from gpudoctor.lint.shell.source import ShellSource

LINE = lazy_re(r"^([ \t]*)(#+)([ \t]*)(SBATCH|S[ABTCH]{4,6}(?=[ \t]+-))\b[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
SCRIPT = lazy_re(r"^[ \t]*#![^\n]*$", re.MULTILINE)
"""Where a script begins: the text itself, or one that it writes in a here-document."""
COMMAND = lazy_re(r"^[ \t]*[^#\s]", re.MULTILINE)
WORD = lazy_re(r"#|(?:\$\{\{[^}\n]*\}\}|\"[^\"\n]*\"|'[^'\n]*'|\\.|[^\s\"'#\\]|[\"'\\])+")
"""A # ends the line wherever it stands outside of quotes (measured with Slurm 22.05: --job-name=a#b is a)."""
NO_OPTION = "no option"
OPEN_QUOTE = "open quote"
CLOSED = lazy_re(r"\\.|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
"""What sbatch's own reader of a header takes for a whole; a backslash counts in both kinds of quotes."""


def looks_like_batch(text: str) -> bool:
    """Whether it has lines that were meant for sbatch."""
    return any("-" in match[5] for match in LINE.finditer(text))


def lines_of(source: ShellSource) -> list[SbatchOption]:
    """All `#SBATCH` lines, those too that SLURM does not read."""
    sbatch_options: list[SbatchOption] = []
    text = source.text
    scripts = [0, *(match.end() for match in SCRIPT.finditer(text))]
    commands = [first.start() if (first := COMMAND.search(text, begin)) else len(text) for begin in scripts]
    parts: list[list[SbatchOption]] = [sbatch_options]
    for line in LINE.finditer(text):
        if line[3] and line[4] != "SBATCH":
            continue  # a comment that shows the command: # sbatch --gres=gpu:1 job.sh
        ignored = _ignored(line, line.start() > commands[bisect_right(scripts, line.start()) - 1])
        if not ignored and line[5].split("#")[0].strip() in ("hetjob", "packjob"):
            parts.append([])
        if not line[5].startswith("-"):
            first = re.match(r"[^\s#]+", line[5])
            if first is not None and not ignored and first[0] not in ("hetjob", "packjob"):
                span = source.span(line.start(5), line.start(5) + first.end())
                parts[-1].append(SbatchOption("", first[0], span, known=False, fault=NO_OPTION))
            continue  # else a comment that speaks of it
        parts[-1] += _options(source, line, ignored)
    if len(parts) == 1:
        return sbatch_options
    return _of_all(parts)


def _of_all(parts: list[list[SbatchOption]]) -> list[SbatchOption]:
    """Of a heterogeneous job: a value in which its parts differ is that of no one of them."""
    headers = [{option.name: option.value for option in part if not option.ignored} for part in parts]
    return [
        option
        if option.ignored or all(header.get(option.name) == option.value for header in headers)
        else structs.replace(option, value=None, components=tuple(header.get(option.name) for header in headers))
        for part in parts
        for option in part
    ]


def _ignored(line: re.Match[str], late: bool) -> str:
    if line[1] and not re.search(rf"^{line[1]}#!", line.string[: line.start()], re.MULTILINE):
        # A script in a document is indented as a whole, its first line too.
        return "not at the begin of the line"
    if len(line[2]) > 1:
        return "commented out with a second #"
    if line[3]:
        return "a blank between # and SBATCH"
    if line[4] != "SBATCH":
        return "lower case" if line[4].upper() == "SBATCH" else f"{line[4]} is not SBATCH"
    return "after the first command" if late else ""


def _options(source: ShellSource, line: re.Match[str], ignored: str) -> list[SbatchOption]:
    words = [Word(raw="sbatch", text="sbatch", shown="sbatch", span=source.span(line.start(4), line.end(4)))]
    at = line.start(5)
    for part in WORD.finditer(line[5]):
        if part[0] == "#":
            break
        plain = re.sub(r"[\"']", "", part[0]).replace("\r", "")
        if plain:
            words.append(
                Word(
                    raw=part[0].rstrip("\r"),
                    text=plain,
                    shown=plain,
                    span=source.span(at + part.start(), at + part.end()),
                )
            )
    # GitHub fills ${{ ... }} in before SLURM gets it.
    words = [structs.replace(word, text=None) if "${{" in word.shown else word for word in words]
    read = SBATCH.read(words)
    options = [_of_option(option, ignored) for option in read.options]
    left_open = re.match(r"[^\"'#]*([\"'])", CLOSED.sub(lambda whole: "x" * len(whole[0]), line[5]))
    if left_open is not None and not ignored and "{{" not in line[5]:
        place = source.span(at + left_open.start(1), at + left_open.end(1))
        return [*options, SbatchOption("", left_open[1], place, known=False, fault=OPEN_QUOTE)]
    if read.end < len(words) and not ignored and all(option.known for option in options):
        extra = words[read.end]
        options.append(SbatchOption("", extra.shown, extra.span, known=False, fault=NO_OPTION))
    return options


def options_of(words: Sequence[Word], grammar: Grammar = SBATCH) -> list[SbatchOption]:
    """Of `sbatch -N 2 job.sh`, or of srun and salloc by their own tables."""
    return [_of_option(option, "") for option in grammar.read(list(words)).options]


def _of_option(option: Option, ignored: str) -> SbatchOption:
    value = option.value.text if option.value is not None else None
    return SbatchOption(option.name, value, option.span, ignored, option.known, option.written, option.fault)
