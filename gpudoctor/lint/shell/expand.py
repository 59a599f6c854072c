"""A word as written -> what the program gets: quotes, `$X`, `${X:-d}`, `$((...))`, `$(...)`."""

import re
from collections.abc import Iterator, Mapping

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Expansion, SetVariable, Where, Word
from gpudoctor.lint.shell.arithmetic import Unknown, evaluate
from gpudoctor.lint.shell.closing import closing, closing_quote
from gpudoctor.lint.shell.counting import count, sets_something
from gpudoctor.lint.shell.expands import Mode
from gpudoctor.lint.shell.parameters import operated, split_parameter
from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.substitute import inside, output
from gpudoctor.lint.shell.variables import ShellVariable, Variables

NAME = lazy_re(r"[A-Za-z_]\w*|[0-9@*#?$!_-]", re.ASCII)
PLAIN = lazy_re(r"[^\\'\"$`\U000F0000-\U000FFFFD]+")
PLAIN_IN_QUOTES = lazy_re(r"[^\\\"$`\U000F0000-\U000FFFFD]+")
PLAIN_IN_HERE = lazy_re(r"[^\\$`\U000F0000-\U000FFFFD]+")
DOLLAR = lazy_re(r"\$[A-Za-z_{]")
OR_ECHO = lazy_re(r"\|\|\s*(?:echo|printf)\s+([\w.:\"'-]+)\s*\)?$")
HEX = lazy_re(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3}))")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "\\": "\\", "'": "'", '"': '"'}
SLICE = lazy_re(r"\s*(\d{1,4})\s*(?::\s*(\d{1,4})\s*)?", re.ASCII)
PATTERNS = ("%", "%%", "#", "##", "/", "//")
SPECIAL = lazy_re(r"[*?\[]")
LONGEST = 1 << 16
MOST_RUNS = 400
MOST_PIECES = 20_000
LONGEST_TEXT = 1 << 21
DEEPEST = 12


def pattern_of(runs: list[CommandRun]) -> str:
    """The pattern that these are for bash: what is quoted in it is plain."""
    return "".join(SPECIAL.sub(r"[\g<0>]", run.text) if run.quoted else run.text for run in runs)


class Expander:
    """Expands words of one source with the variables as they are now."""

    def __init__(self, source: ShellSource, variables: Variables, where: Where, nested: int = 0) -> None:
        self.source = source
        self.variables = variables
        self.where = where
        self.nested = nested
        """How many `$(...)` are around it."""

    def runs(self, start: int, end: int, mode: Mode = "word", depth: int = 0) -> list[CommandRun]:
        """The pieces of `source.text[start:end]`, in order."""
        command_runs: list[CommandRun] = []
        size = 0
        for run in self._runs(start, end, mode, depth):
            command_runs.append(run)
            size += len(run.text)
            if len(command_runs) > MOST_PIECES or size > LONGEST_TEXT:
                return [self._unknown("", start, end, mode != "word")]  # no word of a launch command
        return command_runs

    def inner(self, source: ShellSource, variables: Variables) -> "Expander":
        """The same for what stands in a `$(...)` of it."""
        return Expander(source, variables, self.where, self.nested + 1)

    def _literal(self, start: int, end: int, text: str | None = None, quoted: bool = False) -> CommandRun:
        first, last, exact = self.source.place(start, end)
        plain = self.source.text[start:end] if text is None else text
        dollar = quoted and DOLLAR.search(plain) is not None
        if not exact and last - first == len(plain):
            last = first  # as many characters, but others: nobody may take them for the same
        return CommandRun(plain, first, last, quoted=quoted, dollar=dollar)

    def _runs(self, start: int, end: int, mode: Mode, depth: int) -> Iterator[CommandRun]:
        text = self.source.text
        at = start
        quoted = mode != "word"
        plain = {"word": PLAIN, "quotes": PLAIN_IN_QUOTES, "here": PLAIN_IN_HERE}[mode]
        while at < end:
            match = plain.match(text, at, end)
            if match is not None:
                yield self._literal(at, match.end(), quoted=quoted)
                at = match.end()
                continue
            sign = text[at]
            if sign in self.source.placeholders:
                yield self.source.placeholders[sign]._replace(quoted=quoted)
                at += 1
            elif sign == "\\":
                run, at = self._escape(at, end, mode)
                if run is not None:
                    yield run
            elif sign == "'" and mode == "word":
                close = text.find("'", at + 1, end)
                close = end if close < 0 else close
                yield from self._verbatim(at + 1, close)
                at = close + 1
            elif sign == '"' and mode == "word":
                close = closing_quote(text, at + 1, end)
                made = list(self._runs(at + 1, close, "quotes", depth))
                if not (len(made) == 1 and made[0].breaks):  # "$@" without arguments is no word
                    yield self._literal(at + 1, at + 1, quoted=True)
                yield from made
                at = close + 1
            elif sign == "$":
                runs, at = self._dollar(at, end, mode, depth)
                yield from runs
            elif sign == "`":
                close = text.find("`", at + 1, end)
                close = end if close < 0 else close + 1
                yield from self._command(at, close, quoted)
                at = close
            else:
                yield self._literal(at, at + 1, quoted=quoted)
                at += 1

    def _verbatim(self, start: int, end: int) -> Iterator[CommandRun]:
        """Between single quotes. What the shell outside has put there stands there too: `ssh h "bash -c '... $X'"`."""
        text, filled = self.source.text, self.source.placeholders
        at = start
        for index in [index for index in range(start, end) if text[index] in filled] if filled else ():
            yield self._literal(at, index, quoted=True)
            yield filled[text[index]]._replace(quoted=True)
            at = index + 1
        yield self._literal(at, end, quoted=True)

    def _escape(self, at: int, end: int, mode: Mode) -> tuple[CommandRun | None, int]:
        text = self.source.text
        following = text[at + 1 : at + 2] if at + 1 < end else ""
        if following == "\n":
            return None, at + 2
        if following == "\r" and text[at + 2 : at + 3] == "\n":
            return None, at + 3
        special = {"word": following, "quotes": '$`"\\', "here": "$`\\"}[mode]
        if following and following in special:
            run = self._literal(at, at + 2, following, quoted=True)
            if following == "$" and re.match(r"[A-Za-z_{]", text[at + 2 : at + 3]):
                run = run._replace(dollar=True)
            return run, at + 2
        return self._literal(at, at + 1, quoted=mode != "word"), at + 1

    def _unknown(self, name: str, start: int, end: int, quoted: bool, **more: object) -> CommandRun:
        """A piece that nobody knows; it is shown as written."""
        first, last, exact = self.source.place(start, end)
        raw = self.source.text[start:end]
        if self.source.placeholders:
            raw = "".join(
                self.source.placeholders[sign].text if sign in self.source.placeholders else sign for sign in raw
            )
        is_set, default = more.get("is_set"), more.get("default")
        expansion = Expansion(
            name=name,
            raw=raw,
            value=None,
            is_set=is_set if isinstance(is_set, bool) else None,
            default=default if isinstance(default, str) else None,
            where=self.where,
            span=self.source.lines.span(first, last, exact),
        )
        nested = more.get("nested")
        expansions = (expansion, *(nested if isinstance(nested, tuple) else ()))
        return CommandRun(raw, first, last, known=False, quoted=quoted, splits=not quoted, expansions=expansions)

    def _dollar(self, at: int, end: int, mode: Mode, depth: int) -> tuple[list[CommandRun], int]:
        text = self.source.text
        quoted = mode != "word"
        if text.startswith("$((", at):
            close = closing(text, at + 1, end)
            if text[close - 2 : close] == "))":
                return [self._arithmetic(at, close, quoted)], close
        if text.startswith("$(", at):
            close = closing(text, at + 1, end)
            return self._command(at, close, quoted), close
        if text.startswith("${", at):
            close = closing(text, at + 1, end)
            return self._parameter(at, close, quoted, depth), close
        if mode == "word" and text.startswith("$'", at):
            return self._ansi(at, end)
        if mode == "word" and text.startswith('$"', at):
            return [], at + 1
        name = NAME.match(text, at + 1, end)
        if name is None:
            return [self._literal(at, at + 1, quoted=quoted)], at + 1
        return self.variable(name[0], at, name.end(), quoted), name.end()

    def _ansi(self, at: int, end: int) -> tuple[list[CommandRun], int]:
        text = self.source.text
        runs: list[CommandRun] = []
        at += 2
        while at < end and text[at] != "'":
            if (code := HEX.match(text, at, end)) is not None:
                number = int(code[1], 16) if code[1] else int(code[2], 8)
                runs.append(self._literal(at, code.end(), chr(number & 0x7F), quoted=True))
                at = code.end()
            elif text[at] == "\\" and at + 1 < end:
                runs.append(self._literal(at, at + 2, ESCAPES.get(text[at + 1], text[at : at + 2]), quoted=True))
                at += 2
            else:
                runs.append(self._literal(at, at + 1, quoted=True))
                at += 1
        return runs, at + 1

    def _arithmetic(self, at: int, close: int, quoted: bool) -> CommandRun:
        expression = self.source.text[at + 3 : close - 2]
        if sets_something(expression):
            first, last, exact = self.source.place(at, close)
            counted = count(expression, self.variables, self.source.lines.span(first, last, exact))
            if counted is None:
                return self._unknown("", at, close, quoted, is_set=True)
            return self._known("", at, close, quoted, str(counted))
        try:
            value = str(evaluate(self.spelled(expression), self.number_of))
        except Unknown:
            return self._unknown("", at, close, quoted, is_set=True)
        return self._known("", at, close, quoted, value)

    def spelled(self, expression: str) -> str:
        """With what other expansions in it give: `$((${#LIST} + 1))`, `$(( $(gpus) * 2 ))`."""
        if not re.search(r"\$\(|\$\{(?!\w+\})|`|\$[\d#]", expression):
            return expression
        source = inside(self.source, 0, 0)
        source.text, source.places = expression, None
        made = Expander(source, self.variables, self.where, self.nested + 1).runs(0, len(expression), "here")
        if not all(run.known for run in made):
            raise Unknown
        return "".join(run.text for run in made)

    def number_of(self, name: str) -> str | None:
        """A variable's text, for counting: the scheduler's too, where header or facts tell it."""
        variable = self.variables.get(name)
        if variable is None:
            own = self.seat.get(name)
            return own if own is not None else self.variables.platform.get(name)
        unknown = [run for run in variable.runs or () if run.text]
        if len(unknown) == 1 and not unknown[0].known and len(unknown[0].expansions) == 1:  # N=$SLURM_NNODES
            source = unknown[0].expansions[0]
            plain = source.raw in (f"${source.name}", f"${{{source.name}}}")
            return self.variables.platform.get(source.name) if plain else None
        return self._text_of(name)

    @property
    def seat(self) -> Mapping[str, str]:
        """What is this node's own, where a node expands it and not the batch script."""
        return {} if self.where == "batch" else self.variables.seat

    def _text_of(self, name: str) -> str | None:
        variable = self.variables.get(name)
        if variable is None:
            return self.seat.get(name)
        return variable.text if variable.is_set else None

    def _known(self, name: str, start: int, end: int, quoted: bool, value: str) -> CommandRun:
        unknown = self._unknown(name, start, end, quoted, is_set=True)
        expansion = unknown.expansions[0]
        known = Expansion(name, expansion.raw, value, True, None, self.where, expansion.span)
        return CommandRun(value, -1, -1, quoted=quoted, splits=not quoted, expansions=(known,))

    def _command(self, at: int, close: int, quoted: bool) -> list[CommandRun]:
        """`$(...)` or backticks."""
        raw = self.source.text[at:close]
        printed = None
        if raw[-1:] in (")", "`") and not (raw[0] == "`" and "\\" in raw):
            printed = output(self, at + (2 if raw[0] == "$" else 1), close - 1)
        if printed is not None and len(printed) == 1 and printed[0].known and printed[0].start < 0:
            return [self._known("", at, close, quoted, printed[0].text)]
        if printed is not None:
            return [run._replace(quoted=quoted, splits=not quoted) for run in printed]
        default = OR_ECHO.search(raw)
        return [self._unknown("", at, close, quoted, is_set=True, default=default[1].strip("\"'") if default else None)]

    def variable(self, name: str, start: int, end: int, quoted: bool) -> list[CommandRun]:
        """`$X`: its pieces, each with the place where it was written when the text says so."""
        variable = self.variables.get("@" if name == "*" else name)
        if name == "#" and (all_ := self.variables.get("@")) is not None and all_.items is not None and not all_.open:
            return [self._known("#", start, end, quoted, str(len(all_.items)))]
        if name == "*" and quoted and variable is not None and variable.items is not None:
            return self._joined(variable.items, name, start, end)
        if name in ("@", "*") and variable is not None and variable.items is not None:
            return self._items(variable.items, name, start, end, quoted)
        if variable is None and (own := self.seat.get(name)) is not None:
            return [self._known(name, start, end, quoted, own)]
        runs = variable.runs if variable is not None else None
        if variable is None or runs is None or not variable.is_set:
            return [self._unknown(name, start, end, quoted, is_set=self.variables.is_set(name))]
        return self._of_runs(name, runs, start, end, quoted)

    def _of_runs(self, name: str, runs: tuple[CommandRun, ...], start: int, end: int, quoted: bool) -> list[CommandRun]:
        unknown = self._unknown(name, start, end, quoted, is_set=True)
        if len(runs) > MOST_RUNS or sum(len(run.text) for run in runs) > LONGEST:
            return [unknown]
        first = unknown.expansions[0]
        text = "".join(run.text for run in runs) if all(run.known for run in runs) else None
        own = Expansion(first.name, first.raw, text, True, first.default, first.where, first.span)
        joined = [CommandRun("", -1, -1, quoted=quoted, splits=not quoted, expansions=(own,))]
        for run in runs:
            # What stands inside the value was expanded elsewhere: told, but not a place to edit here.
            nested = tuple(
                Expansion(
                    expansion.name,
                    expansion.raw,
                    expansion.value,
                    expansion.is_set,
                    expansion.default,
                    expansion.where,
                    None,
                )
                for expansion in run.expansions[:8]
            )
            joined.append(run._replace(quoted=quoted, splits=not quoted, expansions=nested))
        return joined

    def _items(
        self, items: tuple[tuple[CommandRun, ...], ...], name: str, start: int, end: int, quoted: bool
    ) -> list[CommandRun]:
        command_runs: list[CommandRun] = []
        for index, item in enumerate(items):
            if index:
                command_runs.append(CommandRun("", breaks=True))
            command_runs += self._of_runs(name, item, start, end, quoted)
        return command_runs or [CommandRun("", breaks=True)]

    def _joined(self, items: tuple[tuple[CommandRun, ...], ...], name: str, start: int, end: int) -> list[CommandRun]:
        """`"${X[*]}"`: one word, with IFS' first character between."""
        ifs = self.variables.get("IFS")
        between = " " if ifs is None or ifs.text is None else ifs.text[:1]
        if not items:
            return [CommandRun("", quoted=True)]
        runs = [run._replace(text=between) if run.breaks else run for run in self._items(items, name, start, end, True)]
        return [run._replace(breaks=False, quoted=True) for run in runs]

    def _parameter(self, at: int, close: int, quoted: bool, depth: int) -> list[CommandRun]:
        parts = split_parameter(self.source.text[at + 2 : close - 1])
        if parts is None or depth > DEEPEST:
            return [self._unknown("", at, close, quoted)]
        name, index, operator, rest_at = parts
        if index:
            return self._element(
                name, index, operator, at, close, quoted, self.source.text[at + 2 + rest_at : close - 1]
            )
        if not operator:
            return self.variable(name, at, close, quoted)
        if name in ("@", "*") and operator == ":":
            rest = self.source.text[at + 2 + rest_at : close - 1]
            return self._element("@", "@", operator, at, close, quoted, rest, first=1)
        if operator == "!" and rest_at == len(name) + 1:
            return self._indirect(name, at, close, quoted)
        variable = self.variables.get(name)
        text = self._text_of(name)
        is_pattern = operator in PATTERNS
        operand = self.runs(at + 2 + rest_at, close - 1, "quotes" if quoted and not is_pattern else "word", depth + 1)
        operand_text = "".join(run.text for run in operand) if all(run.known for run in operand) else None
        if is_pattern and any(run.quoted and SPECIAL.search(run.text) for run in operand):
            if operator in ("/", "//"):
                operand_text = None
            elif operand_text is not None:  # what is quoted in a pattern is plain
                operand_text = pattern_of(operand)
        if operator in (":-", ":=", "-", "=") and variable is None and text is not None:
            return self.variable(name, at, close, quoted)  # the node's own
        if operator in (":-", ":=", "-", "="):
            if (
                variable is not None
                and variable.is_set
                and (variable.runs is None or text is None or text or operator in "-=")
            ):
                return self.variable(name, at, close, quoted)
            if operator in (":=", "="):
                return self._defaulted(name, operand, at, close, quoted)
            if text == "" or name in self.variables.removed:
                return operand
            return [
                self._unknown(
                    name, at, close, quoted, is_set=self.variables.is_set(name), default=operand_text,
                    nested=tuple(expansion for run in operand for expansion in run.expansions),
                )
            ]  # fmt: skip
        if operator in (":?", "?"):
            if text:
                return self.variable(name, at, close, quoted)
            # It is set, or the script ends here.
            return [self._unknown(name, at, close, quoted, is_set=True if self.variables.is_set(name) else None)]
        value = operated(operator, text, operand_text)
        if value is None:
            return [
                self._unknown(
                    name, at, close, quoted, is_set=True if operator in (":+", "+") else self.variables.is_set(name)
                )
            ]
        return [self._known(name, at, close, quoted, value)]

    def _defaulted(self, name: str, operand: list[CommandRun], at: int, close: int, quoted: bool) -> list[CommandRun]:
        """`${X:=4}`: from now on X has it, unless it comes from outside."""
        text = self._text_of(name)
        default = "".join(run.text for run in operand) if all(run.known for run in operand) else None
        runs = operand
        if text != "" and name not in self.variables.removed:
            nested = tuple(expansion for run in operand for expansion in run.expansions)
            is_set = self.variables.is_set(name)
            runs = [self._unknown(name, at, close, quoted, is_set=is_set, default=default, nested=nested)]
        first, last, exact = self.source.place(at, close)
        shown = default if default is not None else f"${name}"
        known = shown if all(run.known for run in runs) else None
        place = Word(raw=shown, text=known, shown=shown, span=self.source.lines.span(first, last, exact))
        self.variables.set(name, ShellVariable(SetVariable(name, place, False, "assignment"), tuple(runs)))
        return runs

    def _indirect(self, name: str, at: int, close: int, quoted: bool) -> list[CommandRun]:
        """`${!NAME}`, `${!#}`."""
        target = self._text_of(name)
        if name == "#" and (given := self.variables.get("@")) is not None and given.items:
            target = str(len(given.items))
        if target is None or not re.fullmatch(r"[A-Za-z_]\w*|[1-9]", target, re.ASCII):
            return [self._unknown(name, at, close, quoted, is_set=self.variables.is_set(name))]
        return self.variable(target, at, close, quoted)

    def _element(
        self, name: str, index: str, operator: str, at: int, close: int, quoted: bool, rest: str = "", first: int = 0
    ) -> list[CommandRun]:
        """`${X[0]}`, `${X[@]}`, `${#X[@]}`, `${!X[@]}`."""
        variable = self.variables.get(name)
        items = variable.items if variable is not None else None
        if items is None and variable is not None and variable.runs is not None and index == "0" and not operator:
            return self._of_runs(name, variable.runs, at, close, quoted)
        if items is None:
            return [self._unknown(name, at, close, quoted, is_set=self.variables.is_set(name))]
        if variable is not None and variable.open and (index not in "@*" or operator):
            return [self._unknown(name, at, close, quoted, is_set=True)]
        if index in "@*":
            if operator == ":" and (limits := SLICE.fullmatch(rest)) is not None:
                start = int(limits[1]) - first if int(limits[1]) else 0
                items = items[start : start + int(limits[2])] if limits[2] else items[start:]
                return self._items(items, name, at, close, quoted)
            if operator == "#":
                return [self._known(name, at, close, quoted, str(len(items)))]
            if operator == "!":
                indexes = tuple((CommandRun(str(number)),) for number in range(len(items)))
                return self._items(indexes, name, at, close, quoted)
            if index == "*" and quoted and not operator:
                return self._joined(items, name, at, close)
            return (
                self._items(items, name, at, close, quoted)
                if not operator
                else [self._unknown(name, at, close, quoted, is_set=True)]
            )
        try:
            number = evaluate(index, self._text_of)
        except Unknown:
            number = len(items)
        if operator or not -len(items) <= number < len(items):
            return [self._unknown(name, at, close, quoted, is_set=True)]
        return self._of_runs(name, items[number], at, close, quoted)
