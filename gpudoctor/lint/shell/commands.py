"""Commands: their words, their variables, and what they start."""

import re
from typing import TYPE_CHECKING

from msgspec import structs

from gpudoctor.lint.model import Invocation, SetVariable, Where, Word
from gpudoctor.lint.shell.assign import assign
from gpudoctor.lint.shell.binding import bind, positional
from gpudoctor.lint.shell.builtins import run_builtin
from gpudoctor.lint.shell.context import DEEPEST, SHELL_DEPTH, Context, Function, Gathered, Script
from gpudoctor.lint.shell.expand import Expander
from gpudoctor.lint.shell.fields import fields, word
from gpudoctor.lint.shell.heredocs import Redirects, redirects
from gpudoctor.lint.shell.sbatch import lines_of, options_of
from gpudoctor.lint.shell.source import CommandRun, ShellSource
from gpudoctor.lint.shell.variables import How, Variables
from gpudoctor.lint.shell.wrappers import ASSIGNMENT, SHELLS, WhatStarts, name, started, starts_ranks

if TYPE_CHECKING:
    from tree_sitter import Node

IGNORED = frozenset(
    ("cd", "pushd", "popd", "module", "ml", "conda", "mamba", "micromamba", "set", "shopt", "ulimit", "umask", "trap")
)

MOST_WORDS = 8192
"""Of one command: more are no launch line, and each rule looks at all of them."""


class Commands(Gathered):
    """Follows simple commands and what they start."""

    def command(
        self, node: "Node", script: Script, variables: Variables, context: Context, redirected: Redirects
    ) -> None:
        source = script.source
        expander = Expander(source, variables, context.where)
        prefixes: list[Node] = []
        places: list[tuple[int, int]] = []
        for child in node.children:
            if child.type == "variable_assignment" and not places:
                if prefixes and _line_ends(source.text, prefixes[-1].end_byte, child.start_byte):
                    # The grammar reads assignments on lines of their own as if they stood before the command.
                    for prefix in prefixes:
                        assign(prefix, expander, "assignment", exported=False)
                    prefixes = []
                prefixes.append(child)
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                more = redirects(node, expander)
                redirected = structs.replace(
                    redirected, extra=redirected.extra + more.extra, stdin=redirected.stdin or more.stdin
                )
            elif child.end_byte > child.start_byte:
                if prefixes and not places and _line_ends(source.text, prefixes[-1].end_byte, child.start_byte):
                    for prefix in prefixes:
                        assign(prefix, expander, "assignment", exported=False)
                    prefixes = []
                if places and places[-1][1] == child.start_byte:  # of one word: `"$A"\$B`
                    places[-1] = (places[-1][0], child.end_byte)
                else:
                    places.append((child.start_byte, child.end_byte))
        places += redirected.extra
        if len(places) > MOST_WORDS:
            line = source.span(*places[0]).line
            self.note(f"line {line}: the command has {len(places)} words; the first {MOST_WORDS} were read")
            places = places[:MOST_WORDS]
        self.words(places, prefixes, script, variables, context, redirected)

    def words(
        self, places: list[tuple[int, int]], prefixes: "list[Node]", script: Script, variables: Variables,
        context: Context, redirected: Redirects,
    ) -> None:  # fmt: skip
        source = script.source
        expander = Expander(source, variables, context.where)
        words: list[Word] = []
        pieces: list[list[CommandRun]] = []
        for start, end in places:
            made = fields(expander.runs(start, end), variables.separators)
            for field in made:
                words.append(word(source, start, end, field, whole=len(made) == 1))
                pieces.append(field)
        if not words:
            for prefix in prefixes:
                assign(prefix, expander, "assignment", exported=False)
            return
        own = variables
        if prefixes:
            own = variables.copy()
            for prefix in prefixes:
                assign(prefix, Expander(source, variables, context.where), "prefix", exported=True, into=own)
        self.run(words, pieces, script, variables, own, context, redirected)

    def run(
        self, words: list[Word], pieces: list[list[CommandRun]], script: Script, outer: Variables, variables: Variables,
        context: Context, redirected: Redirects,
    ) -> None:  # fmt: skip
        """A command with its words expanded. `variables`: those that it gets; `outer`: those of the shell."""
        program = name(words[0])
        if program in (".", "source"):
            self.returns.append([])
            self.source_file(words, script, outer, context)
            self.returned(outer)
            return
        if run_builtin(words, pieces, outer, redirected.stdin, variables.separators):
            return
        if program in IGNORED:
            if program == "set":
                _shell_options([word.shown for word in words[1:]], outer)
            if program == "trap":
                self.trapped(words, pieces, outer, context)
            if program in ("module", "ml", "conda", "mamba", "micromamba"):
                outer.unread_source = True
            if program not in ("conda", "mamba", "micromamba") or (len(words) > 1 and words[1].shown != "run"):
                return
        function = variables.functions.get(program)
        if isinstance(function, Function) and words[0].text == program:
            own = {name: outer.get(name) for name in variables.names_unlike(outer)} if variables is not outer else {}
            for name_ in own:
                outer.restore(name_, variables.get(name_))
            self.call(function, pieces[1:], words[0], outer, context)
            for name_, before in own.items():
                outer.restore(name_, before)
            return
        settings = variables.settings()
        self.spend(1 + len(settings) // 4 + len(words) // 4)
        start, end = words[0].span.start, max(written.span.end for written in words)
        begins = context.within[-1].span if context.within else None
        span = self.lines.span(start, end, words[0].span.exact) if end >= start else (begins or words[0].span)
        invocation = Invocation(
            program=program,
            words=tuple(words),
            settings=settings,
            where=context.where,
            section=context.section,
            span=span,
            background=context.background,
            waited_for=context.waited_for,
            in_loop=context.in_loop,
            conditional=context.conditional,
            node_guard=context.node_guard,
            reached=context.reached,
            within=context.within,
        )
        begun = started(words)
        if begun is not None:
            # What a shell reads is expanded there: its `$` are none that are left over.
            for index in (*begun.texts,):
                words[index] = structs.replace(words[index], literal_dollar=False)
            invocation = structs.replace(invocation, words=tuple(words))
        self.invocations.append(invocation)
        if begun is not None:
            self.start(begun, invocation, words, pieces, script, outer, variables, context, redirected)
        self.ends(program, words, outer)

    def trapped(self, words: list[Word], pieces: list[list[CommandRun]], shell: Variables, context: Context) -> None:
        """The text of a trap: it may run at any time from here on."""
        if len(words) > 2 and words[1].text not in (None, "", "-", "-l", "-p", "--"):
            inside = structs.replace(context, conditional=True, shells=context.shells + 1)
            with self.apart():
                self.text(ShellSource.of_runs(pieces[1], self.lines), shell.copy(), inside)

    def ends(self, program: str, words: list[Word], shell: Variables) -> None:
        """`exit`, `exec COMMAND`, `return`, `break` and `continue` end the flow of a shell, a function, a loop."""
        if program == "exit" or (program == "exec" and _replaces_shell(words)):
            shell.ended = ("exit", 1)
        elif program == "return" and self.returns:
            shell.ended = ("return", 1)
        elif program in ("break", "continue") and self.loops:
            levels = words[1].text if len(words) > 1 else "1"
            shell.ended = (program, min(int(levels) if levels and levels.isdigit() else 1, len(self.loops)))

    def start(
        self, begun: WhatStarts, invocation: Invocation, words: list[Word], pieces: list[list[CommandRun]],
        script: Script, outer: Variables, variables: Variables, context: Context, redirected: Redirects,
    ) -> None:  # fmt: skip
        """Follow what a wrapper starts."""
        at = begun.script + 1
        if 0 < at < len(words) and starts_ranks(words[at]) and name(words[at - 1]) not in self.files:
            # `mpiexec ./set_affinity.sh python train.py`: a file that is not here, and that may set anything
            self.note(f"line {words[at - 1].span.line}: {words[at - 1].shown}: not given; give it too")
            self.has_unread_source = True
            begun = WhatStarts(at=at)
        where: Where = "task" if begun.task else "batch" if begun.batch else context.where
        if begun.fresh:
            where = "node"
        inside = structs.replace(
            context, where=where, within=(*context.within, invocation), depth=context.depth + 1,
            conditional=context.conditional, background=context.background,
        )  # fmt: skip
        if context.depth > DEEPEST:
            return
        passed = Variables() if begun.fresh else variables.copy()
        if invocation.program == "xargs":  # what it reads stands behind its words
            unknown = structs.replace(words[-1], raw="", text=None, shown="", span=words[-1].span)
            words, pieces = [*words, unknown], [*pieces, [CommandRun("", known=False, splits=True)]]
        for index in begun.handed_on:
            known = variables.get(words[index].shown)
            if known is not None and known.setting.exported:
                passed.set(words[index].shown, known)
        if begun.task and begun.own_counts:
            passed.platform = {}
        if begun.each:
            words = [_any_of(word, begun.each) for word in words]
            pieces = [_any_piece(piece, begun.each) for piece in pieces]
            inside = structs.replace(inside, in_loop=invocation.program, background=inside.background or begun.at_once)
        for index in begun.settings:
            how: How = "env" if invocation.program in ("env", "sudo") else "launcher"
            contained = invocation.program in ("apptainer", "singularity")
            self._setting(words[index], pieces[index], passed, how, contained)
        if begun.at >= 0:
            self.run(
                words[begun.at :],
                pieces[begun.at :],
                script,
                outer if not begun.settings else passed,
                passed,
                inside,
                redirected,
            )
            return
        inside = structs.replace(inside, shells=context.shells + 1, given=redirected.stdin)
        shell = variables if invocation.program == "eval" else passed.for_program()
        # sbatch takes those of its command line rather than those of the script's header: the last one of a name holds.
        over_header = options_of(words) if invocation.program == "sbatch" else []
        self.started_text(begun, invocation, words, pieces, outer, shell, inside, redirected.stdin or context.given)
        self.every_sbatch += over_header

    def started_text(
        self, begun: WhatStarts, invocation: Invocation, words: list[Word], pieces: list[list[CommandRun]],
        outer: Variables, shell: Variables, inside: Context, given: ShellSource | None,
    ) -> None:  # fmt: skip
        """Follow the text that a wrapper has a shell read."""
        if begun.texts:
            runs: list[CommandRun] = []
            for number, index in enumerate(begun.texts):
                if number:
                    runs.append(CommandRun(" "))
                option = "--wrap=" if begun.batch else "--command="
                prefix = option if words[index].shown.startswith(option) else ""
                runs += _without_prefix(pieces[index], prefix)
            if invocation.program in SHELLS:
                self.positional(pieces[begun.texts[-1] + 2 :], words[begun.texts[-1]], shell)
                if begun.texts[-1] + 1 < len(pieces):
                    bind(shell, "0", words[begun.texts[-1] + 1], tuple(pieces[begun.texts[-1] + 1]))
            self.text(ShellSource.of_runs(runs, self.lines), shell, inside)
            if invocation.program == "eval":
                outer.unread_source = outer.unread_source or any(not run.known for run in runs)
        elif begun.script >= 0:
            self.positional(pieces[begun.script + 1 :], words[begun.script], shell)
            self.script_file(words[begun.script], shell, inside)
        elif begun.reads_input and given is not None:
            if begun.batch:
                self.every_sbatch += lines_of(given)
            if begun.arguments >= 0:
                self.positional(pieces[begun.arguments :], words[0], shell)
            self.text(given, shell, structs.replace(inside, given=None))

    def positional(self, arguments: list[list[CommandRun]], place: Word, shell: Variables) -> None:
        """`$1`, `$2`, `$@` of a script, in a shell of its own."""
        positional([tuple(argument) for argument in arguments], place, shell)

    def _setting(
        self, word_: Word, runs: list[CommandRun], into: Variables, how: How, into_container: bool = False
    ) -> None:
        match = ASSIGNMENT.match(word_.shown)
        if match is None:
            return
        if into_container and word_.text is not None and "," in word_.text:
            for part in word_.text.split(","):  # apptainer --env A=1,B=2
                name_, equals, text = part.partition("=")
                if equals and name_.isidentifier():
                    one = structs.replace(word_, raw=text, text=text, shown=text)
                    bind(into, name_, one, (CommandRun(text),), setting=SetVariable(name_, one, True, how))
            return
        name_ = match[0][:-1]
        value_runs = _without_prefix(runs, match[0])
        value = structs.replace(
            word_,
            raw=word_.raw.partition("=")[2],
            text=word_.text[len(match[0]) :] if word_.text is not None else None,
            shown=word_.shown[len(match[0]) :],
        )
        raw_at = word_.raw.find("=") + 1
        if (
            word_.span.exact
            and word_.span.end - word_.span.start == len(word_.raw)
            and not word_.raw.startswith(("'", '"'))
        ):
            value = structs.replace(value, span=self.lines.span(word_.span.start + raw_at, word_.span.end))
        bind(
            into,
            name_,
            value,
            tuple(value_runs),
            setting=SetVariable(name_, value, True, how),
        )

    def source_file(self, words: list[Word], script: Script, variables: Variables, context: Context) -> None:
        known = self.files.get(words[1].shown.rsplit("/", 1)[-1]) if len(words) > 1 else None
        if known is not None and context.shells < SHELL_DEPTH:
            self.text(known, variables, structs.replace(context, shells=context.shells + 1))
            return
        variables.unread_source = True
        shown = words[1].shown if len(words) > 1 else ""
        if not shown.endswith(
            ("activate", "conda.sh", ".bashrc", ".profile", ".bash_profile", "modules.sh", "setvars.sh")
        ):
            variables.source_unread()
            self.has_unread_source = True
            self.note(f"line {words[0].span.line}: what {shown or 'source'} sets was not read")

    def script_file(self, file: Word, variables: Variables, context: Context) -> None:
        known = self.files.get(file.shown.rsplit("/", 1)[-1])
        if known is None:
            if not file.shown.startswith("/dev/"):
                self.note(f"line {file.span.line}: {file.shown}: not given; give it too")
            return
        if context.where == "batch":
            self.every_sbatch += lines_of(known)
        self.text(known, variables, context)


def _replaces_shell(words: list[Word]) -> bool:
    rest = [word.shown for word in words[1:]]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] == "-a" else rest[1:]
    return bool(rest)


def _shell_options(shown: list[str], shell: Variables) -> None:
    """`set -eu`, `set +a`, `set -o errexit`."""
    for index, letters in enumerate(shown):
        if not re.match(r"[-+][A-Za-z]", letters):
            break
        on = letters[0] == "-"
        names = shown[index + 1 : index + 2] if letters.endswith("o") else []
        if "e" in letters or "errexit" in names:
            shell.exits_on_error = on
        if "a" in letters or "allexport" in names:
            shell.export_all = on
        if names:
            break


def _line_ends(text: str, start: int, end: int) -> bool:
    """A line ends between two words, without a backslash."""
    return "\n" in text[start:end].replace("\\\r\n", "").replace("\\\n", "")


def _any_of(word: Word, sign: str) -> Word:
    """A word that stands for another one each time: `{}` of xargs."""
    return structs.replace(word, text=None) if sign in word.shown else word


def _any_piece(piece: list[CommandRun], sign: str) -> list[CommandRun]:
    return [run._replace(known=False) if sign in run.text else run for run in piece]


def _without_prefix(runs: list[CommandRun], prefix: str) -> list[CommandRun]:
    """The pieces behind `NAME=`."""
    left = len(prefix)
    command_runs: list[CommandRun] = []
    for run in runs:
        if left >= len(run.text) and left:
            left -= len(run.text)
            continue
        if left:
            exact = run.exact
            run = run._replace(text=run.text[left:], start=run.start + left if exact else run.start)
            left = 0
        command_runs.append(run)
    return command_runs
