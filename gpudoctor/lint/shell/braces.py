"""Brace expansion, the first thing that bash does with a word: `n{1..4}`, `{a,b}.py`, `{08..11}`, `{$A,$B}`."""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.shell.source import CommandRun

RANGE = lazy_re(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,6}))?", re.ASCII)
LETTERS = lazy_re(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,3}))?", re.ASCII)
MOST = 1024


def braces(runs: list[CommandRun]) -> list[list[CommandRun]]:
    """The words that one word's pieces give. What is quoted or comes from a variable opens and closes no brace."""
    if not any(_is_plain(run) and "{" in run.text for run in runs):
        return [runs]
    tokens: list[CommandRun] = []
    for run in runs:
        tokens += _letters(run) if _is_plain(run) else [run]
    made = _expanded(tokens, 0)
    return [_joined(tokens_of_one) for tokens_of_one in made] if len(made) > 1 else [runs]


def _is_plain(run: CommandRun) -> bool:
    return run.known and not run.quoted and not run.splits and not run.breaks and not run.expansions


def _letters(run: CommandRun) -> list[CommandRun]:
    return [
        run._replace(text=sign, start=run.start + at, end=run.start + at + 1)
        if run.exact
        else run._replace(text=sign, start=-1, end=-1)
        for at, sign in enumerate(run.text)
    ]


def _sign(token: CommandRun) -> str:
    return token.text if _is_plain(token) else ""


def _expanded(tokens: list[CommandRun], depth: int) -> list[list[CommandRun]]:
    for begin, token in enumerate(tokens):
        if _sign(token) != "{" or depth > 8:
            continue
        parts = _parts(tokens, begin)
        if parts is None:
            continue
        alternatives, end = parts
        behind = _expanded(tokens[end:], depth + 1)
        inner = [way for part in alternatives for way in _expanded(part, depth + 1)]
        if len(inner) * len(behind) > MOST:
            return [[CommandRun("{}", known=False, splits=True)]] * (MOST + 1)
        return [[*tokens[:begin], *way, *rest] for way in inner for rest in behind]
    return [tokens]


def _parts(tokens: list[CommandRun], begin: int) -> tuple[list[list[CommandRun]], int] | None:
    """What stands between the commas of the brace at `begin`, and where it ends; None where it is none."""
    open_braces, parts, start = 0, [], begin + 1
    for at in range(begin, len(tokens)):
        sign = _sign(tokens[at])
        if sign == "{":
            open_braces += 1
        elif sign == "," and open_braces == 1:
            parts.append(tokens[start:at])
            start = at + 1
        elif sign == "}":
            open_braces -= 1
            if open_braces == 0:
                last = tokens[start:at]
                if parts:
                    return [*parts, last], at + 1
                text = "".join(_sign(token) or "\0" for token in last)
                counted = _range(text)
                return ([[CommandRun(value)] for value in counted], at + 1) if counted else None
    return None


def _range(text: str) -> list[str]:
    numeric = RANGE.fullmatch(text)
    match = numeric or LETTERS.fullmatch(text)
    if match is None:
        return []
    first, last = (int(match[1]), int(match[2])) if numeric else (ord(match[1]), ord(match[2]))
    step = abs(int(match[3] or 1)) or 1
    if abs(last - first) // step > MOST:
        return []
    numbers = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
    if numeric is None:
        return [chr(number) for number in numbers]
    padded = any(re.match(r"-?0\d", side) for side in (match[1], match[2]))
    width = max(len(match[1]), len(match[2])) if padded else 0
    return [f"{number:0{width}d}" for number in numbers]


def _joined(tokens: list[CommandRun]) -> list[CommandRun]:
    """Letters that stand side by side in the text are one piece again."""
    runs: list[CommandRun] = []
    for token in tokens:
        before = runs[-1] if runs else None
        if before is not None and _is_plain(before) and _is_plain(token):
            beside = before.exact and token.exact and before.end == token.start
            if beside:
                runs[-1] = before._replace(text=before.text + token.text, end=token.end)
                continue
            if not before.exact and not token.exact:
                runs[-1] = before._replace(text=before.text + token.text)
                continue
        runs.append(token)
    return runs
