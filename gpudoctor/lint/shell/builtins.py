"""Commands of the shell itself that set variables: `set --`, `shift`, `let`, `read`, `mapfile`, `printf -v`."""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Word
from gpudoctor.lint.shell.assign import read_into
from gpudoctor.lint.shell.binding import MOST_POSITIONAL, bind, bind_items, positional
from gpudoctor.lint.shell.counting import count
from gpudoctor.lint.shell.pure import NotPure, printed
from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.variables import Variables

NAME = lazy_re(r"[A-Za-z_]\w*", re.ASCII)
MOST_ITEMS = 256


def run_builtin(
    words: list[Word], pieces: list[list[CommandRun]], variables: Variables, given: ShellSource | None, separators: str
) -> bool:
    """Whether these words are such a command; what it sets is set. `given`: what it reads; `separators`: IFS."""
    program = words[0].shown
    shown = [word.shown for word in words]
    if program == "set" and len(words) > 1 and (shown[1] == "--" or not shown[1].startswith(("-", "+"))):
        first = 2 if shown[1] == "--" else 1
        if any(run.splits and not run.known for piece in pieces[first:] for run in piece):
            for number in (*range(1, MOST_POSITIONAL + 1), "@"):
                bind(variables, str(number), words[0], None)
        else:
            positional([tuple(piece) for piece in pieces[first:]], words[0], variables)
        return True
    if program == "shift":
        _shift(words, variables)
        return True
    if program == "let":
        for word in words[1:]:
            if word.text is None:
                return read_into(words, variables)
            count(word.text, variables, word.span)
        return True
    if program == "printf" and len(words) > 3 and shown[1] == "-v" and NAME.fullmatch(shown[2]):
        texts = [word.text for word in words[3:]]
        try:
            text = (
                printed(["printf", *(text for text in texts if text is not None)], None) if None not in texts else None
            )
        except NotPure:
            text = None
        bind(variables, shown[2], words[0], None if text is None else (CommandRun(text),))
        return True
    if program in ("read", "mapfile", "readarray") and given is not None and _read(words, variables, given, separators):
        return True
    return read_into(words, variables)


def _shift(words: list[Word], variables: Variables) -> None:
    by = words[1].text if len(words) > 1 else "1"
    before = variables.get("@")
    if before is None or before.items is None or before.open or by is None or not re.fullmatch(r"\d{1,3}", by):
        for number in (*range(1, MOST_POSITIONAL + 1), "@"):
            if variables.get(str(number)) is not None:
                bind(variables, str(number), words[0], None)
        return
    if int(by) <= len(before.items):
        positional(list(before.items[int(by) :]), before.setting.word, variables)


def _read(words: list[Word], variables: Variables, given: ShellSource, separators: str) -> bool:
    """Where what is read is known: the first line of it into names or an array, or all lines."""
    shown = [word.shown for word in words[1:]]
    if words[0].shown == "read" and (name := _all_of_it(shown)):
        bind(variables, name, words[0], _as_runs(given))
        return True
    if given.placeholders and any(sign in given.placeholders for sign in given.text):
        return False
    lines = given.text.splitlines()
    options = [word for word in shown if word.startswith("-")]
    names = [word for word in shown if not word.startswith("-")]
    if any(not NAME.fullmatch(name) for name in names) or any(
        not re.fullmatch(r"-[rat]+", option) for option in options
    ):
        return False
    if words[0].shown != "read":
        items = tuple((CommandRun(line),) for line in lines[:MOST_ITEMS])
        bind_items(variables, names[0] if names else "MAPFILE", words[0], items)
        return True
    line = lines[0] if lines else ""
    parts = line.split() if not separators.strip() else re.split(f"[{re.escape(separators)}]", line)
    if any("a" in option for option in options):
        bind_items(variables, names[0], words[0], tuple((CommandRun(part),) for part in parts[:MOST_ITEMS]))
        return True
    for number, name in enumerate(names or ["REPLY"]):
        last = number == len(names) - 1
        rest = "".join(parts[number : number + 1])
        if last and not separators.strip():
            rest = "".join(line.strip().split(None, number)[number:])
        elif last:
            rest = separators[:1].join(parts[number:])
        bind(variables, name, words[0], (CommandRun(rest),))
    return True


def _all_of_it(shown: list[str]) -> str:
    """The one name of `read -r -d '' NAME`, which takes everything up to a NUL; empty of another read."""
    ends = [at for at, word in enumerate(shown[:-1]) if re.fullmatch(r"-r?d", word) and shown[at + 1] == ""]
    joined = next((word for word in shown if word in ("-d", "-rd")), "") if ends else ""
    rest = [word for at, word in enumerate(shown) if not word.startswith("-") and at - 1 not in ends]
    return rest[0] if joined and len(rest) == 1 and NAME.fullmatch(rest[0]) else ""


def _as_runs(given: ShellSource) -> tuple[CommandRun, ...]:
    """A text that was read, piece by piece."""
    runs: list[CommandRun] = []
    at = 0
    for index in [*(each for each, sign in enumerate(given.text) if sign in given.placeholders), len(given.text)]:
        if index > at:
            start, end, exact = given.place(at, index)
            runs.append(CommandRun(given.text[at:index], *((start, end) if exact else (-1, -1))))
        if index < len(given.text):
            runs.append(given.placeholders[given.text[index]])
        at = index + 1
    return tuple(runs)
