"""How a launcher reads its command line: a table of options, and the rules by which words become options.

Three families of readers differ: argparse (unique prefixes; a value may not look like an option), getopt_long (unique
prefixes; `-N2`, `-lN2`), and Open MPI's and Hydra's own (`-np 4` and `--np 4` alike, no prefixes).
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Option, Span, Word

NEGATIVE_NUMBER = lazy_re(r"-\d+$|-\d*\.\d+$")
ONE_EXPANSION = lazy_re(r"\$(?:\w+|[@*]|\{\w+(?:\[[@*\w]+\])?(?::?[-+=?][^{}]*)?\})")
_STARTS = lazy_re(r".*\.py|(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|horovodrun|composer)")
"""What a launcher is to start: a variable of unknown value before it is no program itself."""
HOLDS_OPTIONS = lazy_re(r"arg|opt|flag|param|launch|dist|torchrun|accel|extra|[@*]", re.IGNORECASE)

PAIRS = ("env", "genv")
"""Hydra's: `-env NAME VALUE`, or one word `NAME=VALUE` (mpich, ui/mpich/utils.c)."""


class OptionSpec(Struct, frozen=True):
    """One option. `spellings` have their dashes. `values`: how many words follow; `optional`: only as `--opt=value`."""

    name: str
    spellings: tuple[str, ...]
    values: int = 0
    optional: bool = False
    since: str = ""
    until: str = ""


def table(text: str, *, both_dashes: bool = False, single_dash: bool = False) -> tuple[OptionSpec, ...]:
    """A table from words `NAME[,-s][,--other][=|==|?][@PACKAGE:VERSION][!PACKAGE:VERSION]`.

    The last two: since when it is there, and the first release without it.

    `=`: one value, `==`: two, `?`: one that may be missing, written with "=" only. NAME is canonical, with the
    launcher's own hyphens or underscores; `both_dashes` adds the other spelling, `single_dash` the one with one dash.
    """
    specs = []
    for word in text.split():
        rest, _, until = word.partition("!")
        body, _, since = rest.partition("@")
        names = body.rstrip("=?")
        first, *others = names.split(",")
        spellings = [f"--{first}", *others]
        if both_dashes:
            spellings += [
                "--" + spelling[2:].translate(swap)
                for spelling in list(spellings)
                for swap in (str.maketrans("-", "_"), str.maketrans("_", "-"))
                if spelling.startswith("--")
            ]
        if single_dash:
            spellings += [spelling[1:] for spelling in list(spellings) if spelling.startswith("--")]
        sign = body[len(names) :]
        specs.append(
            OptionSpec(
                name=first.replace("_", "-"),
                spellings=tuple(dict.fromkeys(spellings)),
                values=2 if sign == "==" else int(bool(sign)),
                optional=sign == "?",
                since=since.replace(":", " "),
                until=until.replace(":", " "),
            )
        )
    return tuple(specs)


class WordsRead(Struct, frozen=True):
    """What `Grammar.read` made of the words. `end`: index of the first word that belongs to the program."""

    options: tuple[Option, ...]
    end: int
    unread: tuple[Word, ...] = ()
    """Variables of unknown value between the options: they may hold more of them."""

    @property
    def last(self) -> dict[str, Option]:
        """By name, the last one wins; unknown ones are not among them."""
        return {option.name: option for option in self.options if option.known}


class Grammar:
    """A table with the reader's rules."""

    def __init__(
        self,
        options: str,
        style: Literal["argparse", "getopt", "mpi"] = "argparse",
        *,
        prefixes: bool = True,
        both_dashes: bool = False,
        hyphens_since: str = "",
    ) -> None:
        """`options`: as `table` takes them. `hyphens_since`: before, options had underscores only."""
        self.text = options
        self.style = style
        self.prefixes = prefixes and style != "mpi"
        self.both_dashes = both_dashes
        self.hyphens_since = hyphens_since

    @cached_property
    def options(self) -> tuple[OptionSpec, ...]:
        return table(self.text, both_dashes=self.both_dashes, single_dash=self.style == "mpi")

    @cached_property
    def _by_spelling(self) -> dict[str, OptionSpec]:
        return {spelling: spec for spec in self.options for spelling in spec.spellings}

    def find(self, spelling: str) -> OptionSpec | None:
        """The option that this spelling names, also by a unique prefix."""
        option_spec = self._by_spelling.get(spelling)
        if option_spec is None and self.prefixes and spelling.startswith("--") and len(spelling) > 2:
            fitting = {spec.name: spec for known, spec in self._by_spelling.items() if known.startswith(spelling)}
            if len(fitting) == 1:
                return next(iter(fitting.values()))
        return option_spec

    def fitting(self, spelling: str) -> list[str]:
        """All spellings that begin so, where the reader takes beginnings; the spelling alone where it is one itself."""
        if spelling in self._by_spelling or not self.prefixes or not spelling.startswith("--") or len(spelling) < 3:
            return [spelling] if spelling in self._by_spelling else []
        return [known for known in self._by_spelling if known.startswith(spelling)]

    def ambiguity(self, spelling: str) -> str:
        """A fault where a prefix fits both spellings of one option: Python 3.11's argparse refuses it, newer ones not
        (measured: `--nproc` of torch 2.13)."""
        if not self.prefixes or not spelling.startswith("--") or spelling in self._by_spelling:
            return ""
        fitting = [known for known in self._by_spelling if known.startswith(spelling)]
        return f"may mean {' or '.join(fitting)}" if len(fitting) > 1 else ""

    def since(self, spelling: str, spec: OptionSpec) -> str:
        """Since when this spelling is understood; "" for always."""
        hyphenated = "-" in spelling.lstrip("-") and "-" in spec.name
        return spec.since or (self.hyphens_since if hyphenated else "")

    def read(self, words: Sequence[Word], start: int = 1) -> WordsRead:
        """The options in `words[start:]`, up to the program."""
        given: list[Option] = []
        unread: list[Word] = []
        index = start
        while index < len(words):
            word = words[index]
            shown = word.shown
            if shown == "--":
                index += 1
                break
            if not shown.startswith("-") or shown == "-":
                if holds_options(words, index):
                    unread.append(word)
                    index += 1
                    continue
                break
            if self.style == "argparse" and not self._is_option(word):
                break
            options, index = self.one(words, index)
            given += options
        return WordsRead(tuple(given), min(index, len(words)), tuple(unread))

    def one(self, words: Sequence[Word], index: int) -> tuple[list[Option], int]:
        """The option at `index` (several, of `-lN2`), and where to go on."""
        word = words[index]
        spelling, equals, _ = word.shown.partition("=")
        spec = self.find(spelling)
        short = not spelling.startswith("--") and self.style != "mpi"
        if short and (spec is None or (equals and self.style == "getopt")):  # getopt: of -N=2 the value is =2
            clustered = self._cluster(words, index)
            if clustered is not None:
                return clustered
        if spec is None:
            return self._unknown(words, index)
        since, until = self.since(spelling, spec), spec.until
        fault = self.ambiguity(spelling)
        if equals:
            value = tail(word, len(spelling) + 1)
            fault = fault if spec.values else "takes no value"
            return [Option(spec.name, spelling, value, word.span, since=since, until=until, fault=fault)], index + 1
        if spec.values == 0 or spec.optional:
            return [Option(spec.name, spelling, None, word.span, since=since, until=until, fault=fault)], index + 1
        values = words[index + 1 : index + 1 + spec.values]
        if spec.name in PAIRS and values and "=" in values[0].shown:
            values = values[:1]
            return [Option(spec.name, spelling, values[0], over(word.span, values[0].span), fault=fault)], index + 2
        if len(values) < spec.values or (self.style == "argparse" and self._is_option(values[0])):
            return [
                Option(spec.name, spelling, None, word.span, since=since, until=until, fault="needs a value")
            ], index + 1
        value = joined(values)
        span = over(word.span, value.span)
        return [
            Option(spec.name, spelling, value, span, since=since, until=until, fault=fault)
        ], index + 1 + spec.values

    def _cluster(self, words: Sequence[Word], index: int) -> tuple[list[Option], int] | None:
        """`-N2`, `-n=4` (argparse), `-lN2`; None when the letters are no options."""
        word = words[index]
        options: list[Option] = []
        at = 1
        while at < len(word.shown):
            letter = f"-{word.shown[at]}"
            spec = self._by_spelling.get(letter)
            if spec is None:
                return None
            at += 1
            if spec.values:
                if at < len(word.shown):
                    options.append(Option(spec.name, letter, tail(word, at), word.span))
                    return options, index + 1
                if spec.optional:
                    options.append(Option(spec.name, letter, None, word.span))
                    return options, index + 1
                if index + 1 >= len(words):
                    options.append(Option(spec.name, letter, None, word.span, fault="needs a value"))
                    return options, index + 1
                value = words[index + 1]
                span = over(word.span, value.span)
                options.append(Option(spec.name, letter, value, span))
                return options, index + 2
            options.append(Option(spec.name, letter, None, word.span))
        return options, index + 1

    def _unknown(self, words: Sequence[Word], index: int) -> tuple[list[Option], int]:
        """An option that no table has. Whether the next word is its value can only be guessed from its looks."""
        word = words[index]
        spelling, equals, _ = word.shown.partition("=")
        name = spelling.lstrip("-").replace("_", "-")
        if equals:
            return [Option(name, spelling, tail(word, len(spelling) + 1), word.span, known=False)], index + 1
        following = words[index + 1] if index + 1 < len(words) else None
        if following is not None and index + 2 < len(words) and not looks_like_program(following):
            span = over(word.span, following.span)
            return [Option(name, spelling, following, span, known=False)], index + 2
        return [Option(name, spelling, None, word.span, known=False)], index + 1

    def _is_option(self, word: Word) -> bool:
        """As argparse decides: begins with a dash, is no negative number, and has no blank."""
        shown = word.shown
        if not shown.startswith("-") or shown == "-" or NEGATIVE_NUMBER.match(shown):
            return False
        return " " not in shown or self.find(shown.partition("=")[0]) is not None


def looks_like_program(word: Word) -> bool:
    """A file of Python or a path, a dotted module, an interpreter: not a number, not an option."""
    shown = word.shown
    if shown.startswith("-"):
        return True
    return bool(re.search(r"\.(py|sh)$|/|^python[\d.]*$|^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", shown))


def holds_options(words: Sequence[Word], index: int) -> bool:
    """Whether a word stands for options that are not known: `$DISTRIBUTED_ARGS`, `"${args[@]}"` before a program."""
    word = words[index]
    if word.text is not None or index + 1 >= len(words):
        return False
    if not ONE_EXPANSION.fullmatch(word.raw.strip("\"'")):
        return False
    return bool(HOLDS_OPTIONS.search(word.raw)) or any(_STARTS.fullmatch(each.shown) for each in words[index + 1 :])


def tail(word: Word, at: int) -> Word:
    """The part of a word from `at` on (counted in `shown`): the value of `--option=value`."""
    head, shown = word.shown[:at], word.shown[at:]
    place = word.raw.find(head) if head in word.raw else -1
    begin = place + at if place >= 0 else 0
    raw = word.raw[begin:]
    end = word.span.end
    opening = word.raw[:1]
    if place == 1 and opening in "\"'" and raw.endswith(opening):
        raw, end = raw[:-1], end - 1  # the quotes are around option and value together
    exact = place >= 0 and len(word.raw) == word.span.end - word.span.start
    span = Span(word.span.start + begin, end, word.span.line, word.span.exact) if exact else inexact(word.span)
    expansions = tuple(
        expansion for expansion in word.expansions if expansion.span is None or expansion.span.start >= span.start
    )
    return structs.replace(
        word,
        raw=raw,
        text=word.text[at:] if word.text is not None else None,
        shown=shown,
        span=span,
        expansions=expansions if exact else word.expansions,
        quoted=word.quoted and any(quote in word.raw for quote in "\"'"),
    )


def joined(words: Sequence[Word]) -> Word:
    """Several words as one, with a blank between: the two values of `-mca NAME VALUE`."""
    if len(words) == 1:
        return words[0]
    texts = [word.text for word in words]
    return Word(
        raw=" ".join(word.raw for word in words),
        text=" ".join(text for text in texts if text is not None) if None not in texts else None,
        shown=" ".join(word.shown for word in words),
        span=Span(words[0].span.start, words[-1].span.end, words[0].span.line, exact=False),
        expansions=tuple(expansion for word in words for expansion in word.expansions),
        quoted=any(word.quoted for word in words),
        literal_dollar=any(word.literal_dollar for word in words),
    )


def over(first: Span, last: Span) -> Span:
    """From one word to another; the first alone where the other stands before it, in the variable that holds it."""
    return Span(first.start, max(first.end, last.end) if last.end >= first.start else first.end, first.line)


def inexact(span: Span) -> Span:
    return Span(span.start, span.end, span.line, exact=False)
