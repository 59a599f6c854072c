"""`gpudoctor lsp`: lint in an editor, over the Language Server Protocol on standard input and output.

It sees what the editor has opened, and reads nothing else but the config of the repository and the modules that an
opened program imports of its own folder; it starts nothing.
Documents that name each other are judged as one start, as files are. A document that starts nothing is left alone: an
editor opens every YAML file.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from gpudoctor import __version__, bounded, cost
from gpudoctor.errors import Error
from gpudoctor.lint import pins
from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.beside import with_modules
from gpudoctor.lint.config import LintConfig, config_for, forget
from gpudoctor.lint.given import is_hostfile, may_start, mentions_a_start
from gpudoctor.lint.lint import FiredRule
from gpudoctor.lint.model import Span
from gpudoctor.lint.places import FileText
from gpudoctor.lint.rule import Edit, Severity
from gpudoctor.lint.several import JudgedStart, judged
from gpudoctor.lint.starts import SourceFile, StartFiles, starts

NAME = "gpudoctor"
SEVERITIES: dict[Severity, int] = {"error": 1, "warning": 2, "info": 3}
LONGEST_TITLE = 80


class LintServer:
    """What is open in one editor, and what was found of it."""

    def __init__(self, facts: AskedFacts) -> None:
        self.facts = facts
        self.server = LanguageServer(NAME, __version__)
        self.opened: list[str] = []
        self.judged: dict[StartFiles, JudgedStart | None] = {}
        """Of the documents as they are; None: it cannot be judged."""
        self.shown: dict[str, list[types.Diagnostic]] = {}
        self.told: set[str] = set()
        handlers: dict[str, Callable[[Any], object]] = {
            types.TEXT_DOCUMENT_DID_OPEN: self.did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: lambda _: self.look(),
            types.TEXT_DOCUMENT_DID_SAVE: self.did_save,
            types.TEXT_DOCUMENT_DID_CLOSE: self.did_close,
        }
        for name, handle in handlers.items():
            self.server.feature(name)(_handler(handle))
        kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
        self.server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(_handler(self.code_actions))

    def start(self) -> None:
        """Serve until the editor leaves, which closes the streams: on copies of ours. What else is printed meanwhile is
        no word of the protocol, and goes to standard error."""
        given, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self.server.start_io(given, answers)

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        if params.text_document.uri not in self.opened:
            self.opened.append(params.text_document.uri)
        self.look()

    def did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        """The config is read anew: it may be what was mended."""
        forget()
        pins.forget()
        self.judged.clear()
        self.told.clear()
        self.look()

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self.opened = [other for other in self.opened if other != uri]
        self._show(uri, [])
        self.look()

    # ------------------------------------------------------------ judging

    def look(self) -> None:
        """Judge what has changed, and show what is found of each document."""
        cost.progress()
        sources = [source for uri in self.opened if (source := self._source(uri)) is not None]
        opened = {os.path.realpath(source.file): source.text for source in sources}
        every = [with_modules(start, opened) for start in starts(sources) if _is_one(start.main)]
        self.judged = {start: self.judged[start] if start in self.judged else self._judge(start) for start in every}
        by_uri: dict[str, list[types.Diagnostic]] = {uri: [] for uri in self.opened}
        for done in self.judged.values():
            for uri, diagnostic in self._diagnostics(done) if done is not None else ():
                if diagnostic not in by_uri[uri]:
                    by_uri[uri].append(diagnostic)
        for uri, diagnostics in by_uri.items():
            self._show(uri, diagnostics)

    def _source(self, uri: str) -> SourceFile | None:
        text = self.server.workspace.get_text_document(uri).source
        if len(text) > bounded.SCRIPT.size or "\0" in text or not text.strip():
            return None
        return SourceFile(uris.to_fs_path(uri) or uri, text, is_named=False)

    def _judge(self, start: StartFiles) -> JudgedStart | None:
        try:
            config = config_for(start.main.file) if PurePath(start.main.file).is_absolute() else LintConfig()
            return judged(start, self.facts, config=config)
        except Error as error:  # a config that cannot be used, an empty document
            said = str(error)
        except (cost.Beyond, MemoryError) as error:
            said = f"{start.main.file}: not judged: {error}"
        if said not in self.told:
            self.told.add(said)
            message = types.ShowMessageParams(types.MessageType.Error, f"gpudoctor: {said}")
            self.server.window_show_message(message)
        return None

    def _show(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        if self.shown.get(uri, []) != diagnostics:
            self.shown[uri] = diagnostics
            params = types.PublishDiagnosticsParams(uri, diagnostics)
            self.server.text_document_publish_diagnostics(params)

    def _diagnostics(self, done: JudgedStart) -> Sequence[tuple[str, types.Diagnostic]]:
        if done.linted is None:
            return ()
        problems = done.linted.report.problems
        return [
            (
                self._uri(done, self._shown(done, rule)),
                self._diagnostic(done, rule, f"{problem.summary}\n{problem.happens}\nFix: {problem.fix.text}"),
            )
            for rule, problem in zip(done.linted.found, problems, strict=True)
        ]

    def _diagnostic(self, done: JudgedStart, rule: FiredRule, message: str) -> types.Diagnostic:
        shown, meant = self._shown(done, rule), rule.finding.span
        related = None
        if shown is not meant:
            file = self._file(done, meant.start).file or ""
            place = types.Location(uris.from_fs_path(os.path.realpath(file)) or file, self._range(done, meant))
            related = [types.DiagnosticRelatedInformation(place, message.partition("\n")[0])]
            message = f"in {os.path.basename(file)}, line {place.range.start.line + 1}: {message}"  # noqa: PTH119
        return types.Diagnostic(
            range=self._range(done, shown),
            message=message,
            severity=types.DiagnosticSeverity(SEVERITIES[rule.severity]),
            code=rule.rule.code,
            source=NAME,
            related_information=related,
        )

    # ------------------------------------------------------------ places

    def _file(self, done: JudgedStart, offset: int) -> FileText:
        assert done.linted is not None
        return done.linted.places.file(offset)

    def _shown(self, done: JudgedStart, rule: FiredRule) -> Span:
        """Where a problem is shown: one in a module that is not open, at the import that leads there."""
        span = rule.finding.span
        if not rule.is_in_module or self._opened(self._file(done, span.start).file) is not None:
            return span
        assert done.linted is not None
        return done.linted.import_of(span) or span

    def _opened(self, file: str | None) -> str | None:
        real = os.path.realpath(file or "")
        return next((uri for uri in self.opened if (path := uris.to_fs_path(uri) or uri) == file or real == path), None)

    def _uri(self, done: JudgedStart, span: Span) -> str:
        return self._opened(self._file(done, span.start).file) or self.opened[0]

    def _range(self, done: JudgedStart, span: Span) -> types.Range:
        file = self._file(done, span.start)
        end = max(span.start, min(span.end, file.end))
        return types.Range(self._position(file, span.start), self._position(file, end))

    def _position(self, file: FileText, offset: int) -> types.Position:
        """In the units that editor and server have agreed on: mostly UTF-16."""
        at = offset - file.start
        begin = file.text.rfind("\n", 0, at) + 1
        units = self.server.workspace.position_codec.client_num_units(file.text[begin:at])
        return types.Position(file.text.count("\n", 0, at), units)

    # ------------------------------------------------------------ quick fixes

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, asked = params.text_document.uri, params.range
        made: list[types.CodeAction] = []
        for done in self.judged.values():
            for rule in done.linted.found if done is not None and done.linted is not None else ():
                if done is None or self._uri(done, shown := self._shown(done, rule)) != uri:
                    continue
                diagnostic = next(
                    (
                        diagnostic
                        for diagnostic in self.shown.get(uri, [])
                        if diagnostic.code == rule.rule.code and diagnostic.range == self._range(done, shown)
                    ),
                    None,
                )
                if diagnostic is None or not _meet(diagnostic.range, asked):
                    continue
                if rule.finding.edits and all(edit.span.exact for edit in rule.finding.edits):
                    made.append(self._action(done, diagnostic, rule.finding.fix, rule.finding.edits, preferred=True))
                if shown is rule.finding.span:
                    made.append(self._ignore(uri, diagnostic, rule))
        return made

    def _action(
        self, done: JudgedStart, diagnostic: types.Diagnostic, title: str, edits: Sequence[Edit], *, preferred: bool
    ) -> types.CodeAction:
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in edits:
            uri = self._uri(done, edit.span)
            place = self._range(done, edit.span)
            changes.setdefault(uri, []).append(types.TextEdit(place, edit.text))
        short = title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE]}..."
        return types.CodeAction(
            title=f"{diagnostic.code}: {short}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            is_preferred=preferred,
            edit=types.WorkspaceEdit(changes=dict(changes)),
        )

    def _ignore(self, uri: str, diagnostic: types.Diagnostic, rule: FiredRule) -> types.CodeAction:
        """A comment above the line; above the first one of a command that goes on by backslashes."""
        lines = self.server.workspace.get_text_document(uri).source.split("\n")
        at = diagnostic.range.start.line
        while at and lines[at - 1].rstrip("\r").endswith("\\"):
            at -= 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        place = types.Range(types.Position(at, 0), types.Position(at, 0))
        comment = f"{indent}# gpudoctor: ignore[{rule.rule.code}]\n"
        return types.CodeAction(
            title=f"Ignore {rule.rule.code} {rule.rule.id} here",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            edit=types.WorkspaceEdit(changes={uri: [types.TextEdit(place, comment)]}),
        )


def _handler(handle: Callable[[Any], object]) -> Callable[[Any], object]:
    """A function of its own: pygls writes on it what it handles."""
    return lambda params: handle(params)


def _is_one(main: SourceFile) -> bool:
    """Whether to judge a document that no other open one names."""
    if is_hostfile(main.file):
        return True
    return may_start(main) and (main.file.endswith(".py") or mentions_a_start(main.text))


def _meet(one: types.Range, other: types.Range) -> bool:
    """Whether they share a line: an editor asks for that of its cursor."""
    return bool(one.start.line <= other.end.line and other.start.line <= one.end.line)
