"""What bash refuses before it runs a line, and where that began: a quote, a bracket, an `if`, a loop or a here-document
that is never closed, and words such as `fi` and `done` that close nothing.

A reader of structure by bash(1), "Shell grammar": it knows quotes, expansions, here-documents, compound commands and
functions, and of simple commands only where they end. `bash -n` is what the tests hold it against.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.shell.continued import OVERRIDE, belongs_above
from gpudoctor.lint.shell.words import RefusedShell, ShellWords, StopReading

OPENERS = {"if": "fi", "for": "done", "while": "done", "until": "done", "select": "done", "case": "esac", "{": "}"}
CLOSERS = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
HEREDOC = lazy_re(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
DEEPEST = 150


class ScriptRead(NamedTuple):
    """What the reader saw of a script."""

    refused: RefusedShell | None
    """The first thing that bash refuses; None where it takes the text."""
    trailing: tuple[int, ...] = ()
    """Backslashes with a blank behind them at the end of a line."""
    dashed: tuple[int, ...] = ()
    """Commands whose name is an option, or hydra's."""
    over_lines: tuple[tuple[int, int], ...] = ()
    """Quotes and arrays that run over lines."""


_OTHER_SHELL = lazy_re(r"#![^\n]*\b(?:t?csh|fish|python[\d.]*|perl|lua|Rscript)\b")
"""What is read by another program is not refused by bash."""


@lru_cache(maxsize=8)
def read_script(text: str) -> ScriptRead:
    """Never raises."""
    if _OTHER_SHELL.match(text):
        return ScriptRead(None)
    reader = _Reader(text)
    refusal = None
    try:
        reader.commands(())
        reader.end_of_line()
    except StopReading as stop:
        refusal = stop.refused
        # A quote that was left open ends at the next one, and so on: the first that runs over lines is where it began.
        if refusal.kind == "quote" and reader.long_quotes and reader.long_quotes[0] < refusal.at:
            refusal = refusal._replace(at=reader.long_quotes[0])
    except RecursionError:
        return ScriptRead(None)
    return ScriptRead(
        refusal or reader.document, tuple(reader.trailing), tuple(reader.dashed), tuple(reader.over_lines)
    )


def refused(text: str) -> RefusedShell | None:
    """The first thing that bash refuses."""
    return read_script(text).refused


_WHOLE = lazy_re(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\$\([^()]*\)|\$\{[^}]*\}|\\.", re.DOTALL)


def _parts(loop: str) -> list[str]:
    """What stands between the brackets of `for ((first; while; behind))`, of which bash wants three."""
    bare = _WHOLE.sub("", loop)
    return bare.split(";") if "$(" not in bare else ["", "", ""]


_MOST_NAMES, _LONGEST = 64, 200_000
_VARIABLE = lazy_re(r"\"?\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?\})\"?")
_SENTENCE = lazy_re(r"\"[A-Za-z][^\"$`\n]*[ ;][^\"]*\"|'[A-Za-z][^'\n]*[ ;][^']*'", re.DOTALL)


class _Reader(ShellWords):
    def _is_rest(self, start: int) -> bool:
        """Whether a command's first word is what belongs behind the line above: options in a variable, or a whole
        command in quotes (of `ssh HOST`)."""
        word = self.text[start : self.at]
        if _SENTENCE.fullmatch(word):
            return True
        match = _VARIABLE.fullmatch(word)
        if match is None:
            return False
        name = match[1] or match[2]
        if name not in self.options_in:
            if len(self.options_in) >= _MOST_NAMES or len(self.text) > _LONGEST:
                return False
            self.options_in[name] = self._holds_options(name)
        return self.options_in[name]

    def _holds_options(self, name: str) -> bool:
        """Whether all that the text sets a variable to begins with an option."""
        values = re.findall(rf"(?:^|[\s;]){name}\+?=(\(|[\"']|)(?:[ \t\n]|\\\n)*[\"']?([^\s\"')]{{0,80}})", self.text)
        told = [
            f"+{value}" if sign == "(" and re.match(r"[a-z_]\w*=", value) else value for sign, value in values if value
        ]
        self.options_in[name] = False  # a variable that names itself
        return bool(told) and all(self._is_argument(value) for value in told)

    def _is_argument(self, value: str) -> bool:
        """An option, an override, or another variable that holds such."""
        if re.match(r"--?[A-Za-z]", value) or OVERRIDE.match(value):
            return True
        named = _VARIABLE.fullmatch(value)
        if named is None or (name := named[1] or named[2]) in self.options_in:
            return named is not None and self.options_in[name]
        self.options_in[name] = len(self.options_in) < _MOST_NAMES and self._holds_options(name)
        return self.options_in[name]

    def commands(self, closing: tuple[str, ...], opened: tuple[int, str] | None = None, empty: bool = False) -> str:
        """A list of commands up to one of the closing words, which is read; "" at the end of the text. `empty`: there
        may be none."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError
        above: tuple[int, int] | None = None
        while True:
            self.lines()
            if self.at >= self.size:
                if closing and opened is not None:
                    raise self.stop("compound", opened[0], opened[1], closing[0])
                self.depth -= 1
                return ""
            closer = next((sign for sign in closing if self.here(sign)), "")
            if closer:
                if not empty:
                    raise self.stop("unexpected", self.at, closer)
                self.at += len(closer)
                self.depth -= 1
                return closer
            start = self.at
            self.command()
            if above is not None and start not in self.dashed and belongs_above(self.text, above, (start, self.at)):
                self.dashed.append(start)
            above = (start, self.at)
            empty = True
            self.blanks()
            if self.text.startswith((";;", ";&"), self.at):
                if ";;" in closing:
                    continue
                raise self.stop("unexpected", self.at, ";;")
            if self.at < self.size and self.text[self.at] in ";&|":
                self.operator()

    def operator(self) -> None:
        """What stands between commands."""
        at = self.at
        sign = next(each for each in ("&&", "||", "|&", ";", "&", "|") if self.text.startswith(each, self.at))
        self.at += len(sign)
        if sign in (";", "&"):
            return
        self.lines()
        if self.at >= self.size:
            raise self.stop("unexpected", at, sign)

    def here(self, word: str) -> bool:
        """Whether this reserved word stands here."""
        if not self.text.startswith(word, self.at):
            return False
        if word in (")", ";;", "))", ";&", ";;&"):
            return True
        end = self.at + len(word)
        return end >= self.size or self.text[end] in " \t\r\n;&|()<>"

    def command(self) -> None:
        """One command, of whatever sort."""
        start = self.at
        text = self.text
        if text.startswith("((", start) and self.arithmetic(start):
            self.redirections()
            return
        if text[start] == "(":
            self.at += 1
            self.commands((")",), (start, "("))
            self.redirections()
            return
        if self.here("[["):
            self.condition()
            self.redirections()
            return
        for word in ("!", "time", "coproc", "-p"):
            if self.here(word) and word != "-p":
                self.at += len(word)
                self.blanks()
                if self.at < self.size and text[self.at] not in "\n;&|)":
                    self.command()
                return
        if self.here("function"):
            self.at += len("function")
            self.blanks()
            self.word()
            self.blanks()
            if text.startswith("()", self.at):
                self.at += 2
            self.lines()
            if self.at < self.size:
                self.command()
            return
        for word in OPENERS:
            if self.here(word):
                self.compound(word, start)
                self.redirections()
                return
        wrong = next((closer for closer in CLOSERS if self.here(closer)), "")
        if wrong or text[start] in ");&|":
            raise self.stop("unexpected", start, wrong or text[start])
        self.simple()

    def compound(self, word: str, start: int) -> None:
        self.at += len(word)
        opened = (start, word)
        if word == "{":
            self.commands(("}",), opened)
        elif word == "if":
            self.commands(("then",), (start, "if"))
            while True:
                closer = self.commands(("fi", "elif", "else"), opened)
                if closer == "fi":
                    return
                if closer == "elif":
                    self.commands(("then",), opened)
                else:
                    self.commands(("fi",), opened)
                    return
        elif word in ("while", "until"):
            self.commands(("do",), opened)
            self.commands(("done",), opened)
        elif word == "case":
            self.case(opened)
        else:
            self.blanks()
            if self.text.startswith("((", self.at):
                begin = self.at
                if self.arithmetic(begin) and len(_parts(self.text[begin + 2 : self.at - 2])) != 3:
                    raise self.stop("parts", begin, "((")
            else:
                self.word()
                self.lines()
                if self.here("in"):
                    self.at += 2
                    self.words()
            self.blanks()
            if self.at < self.size and self.text[self.at] == ";":
                self.at += 1
            self.lines()
            if self.here("{"):
                self.at += 1
                self.commands(("}",), opened)
                return
            if not self.here("do"):
                raise self.stop("compound", start, word, "do")
            self.at += 2
            self.commands(("done",), opened)

    def case(self, opened: tuple[int, str]) -> None:
        self.blanks()
        self.word()
        self.lines()
        if not self.here("in"):
            raise self.stop("compound", opened[0], "case", "in")
        self.at += 2
        while True:
            self.lines()
            if self.at >= self.size:
                raise self.stop("compound", opened[0], "case", "esac")
            if self.here("esac"):
                self.at += 4
                return
            if self.text[self.at] == "(":
                self.at += 1
            while self.at < self.size and self.text[self.at] != ")":
                before = self.at
                self.blanks()
                if self.at < self.size and self.text[self.at] == "|":
                    self.at += 1
                elif self.at < self.size and self.text[self.at] != ")":
                    self.word()
                if self.at == before:
                    raise self.stop("unexpected", self.at, self.text[self.at])
            self.at += 1
            if self.commands((";;&", ";;", ";&", "esac"), opened, empty=True) == "esac":
                return

    def condition(self) -> None:
        """`[[ ... ]]`."""
        start = self.at
        self.at += 2
        while self.at < self.size:
            self.lines()
            if self.here("]]"):
                self.at += 2
                return
            before = self.at
            if self.at < self.size and self.text[self.at] in "()<>&|;!":
                self.at += 1
            elif self.at < self.size:
                self.word(pattern=True)
            if self.at == before:
                self.at += 1
        raise self.stop("compound", start, "[[", "]]")

    def arithmetic(self, start: int) -> bool:
        """`((...))`; False where it is two subshells."""
        depth, at = 0, start
        while at < self.size:
            sign = self.text[at]
            if sign == "(":
                depth += 1
            elif sign == ")":
                depth -= 1
                if depth == 0:
                    if self.text[at - 1] != ")":
                        return False
                    self.at = at + 1
                    return True
            at += 1
        raise self.stop("bracket", start, "((", "))")

    def redirections(self) -> None:
        """What may follow a compound command. Behind one, bash knows no reserved word until a line or list ends."""
        is_first = True
        while True:
            self.blanks()
            digits = re.compile(r"\d*(?=[<>])|&(?=>)").match(self.text, self.at)
            if digits is None:
                wrong = "" if is_first else next((word for word in CLOSERS if self.here(word)), "")
                if wrong:
                    raise self.stop("unexpected", self.at, wrong)
                return
            is_first = False
            self.at = digits.end()
            self.redirection()

    def redirection(self) -> None:
        document = HEREDOC.match(self.text, self.at)
        if document is not None and not self.text.startswith("<<<", self.at):
            wanted = re.sub(r"[\\'\"]", "", document[2])
            self.waiting.append((wanted, bool(document[1]), self.at))
            self.at = document.end()
            return
        if self.text.startswith(("<(", ">("), self.at):
            self.word()
            return
        start = self.at
        while self.at < self.size and self.text[self.at] in "<>&|":
            self.at += 1
        self.blanks()
        if self.at >= self.size or self.text[self.at] in "\n;|)":
            raise self.stop("unexpected", start, self.text[start : self.at].strip() or "<")
        self.word()

    def simple(self) -> None:
        """A simple command, or a function `name () ...`."""
        first = True
        while True:
            self.blanks()
            if self.at >= self.size or self.text[self.at] in "\n;|)":
                return
            if self.text[self.at] == "&" and not self.text.startswith("&>", self.at):
                return
            if self.text[self.at] in "<>&":
                self.redirection()
                continue
            before = self.at
            if self.text[before] == "(":
                raise self.stop("unexpected", before, "(")
            if first and (
                re.match(r"--?[A-Za-z]", self.text[before : before + 3]) or OVERRIDE.match(self.text, before)
            ):
                self.dashed.append(before)
            self.word()
            if first and self._is_rest(before):
                self.dashed.append(before)
            function = re.compile(r"[ \t]*\([ \t]*\)").match(self.text, self.at) if first else None
            if function is not None:
                self.at = function.end()
                self.lines()
                if self.at < self.size:
                    self.command()
                return
            first = False

    def words(self) -> None:
        """Words up to the end of the line or `;`."""
        while True:
            self.blanks()
            if self.at >= self.size or self.text[self.at] in "\n;&|":
                return
            if self.text[self.at] in "()<>" and not self.text.startswith(("<(", ">("), self.at):
                raise self.stop("unexpected", self.at, self.text[self.at])
            self.word()
