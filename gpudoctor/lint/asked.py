"""A text to lint as it is given, a file or the words of a command, and what is known besides. All raise `BadInput`."""

import os
import re
import shlex
from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from gpudoctor import bounded
from gpudoctor.errors import BadInput, CannotTell
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.facts import FactsProblem, installed, merged, parse_facts, read_env_file
from gpudoctor.lint.lint import Linted, linted
from gpudoctor.lint.model import LinkedProgram, LintFacts
from gpudoctor.lint.pins import pinned
from gpudoctor.lint.places import Piece
from gpudoctor.lint.read import EmptyText, UnreadableText, read_job
from gpudoctor.lint.rule import rules_for
from gpudoctor.read.interpreter import choose

ASSIGNMENT = lazy_re(r"([A-Za-z_]\w*\+?=)(.*)", re.ASCII | re.DOTALL)
VERSION = lazy_re(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}([a-z+.][a-z0-9.+]{0,30})?", re.ASCII)


def lint(
    text: str,
    known: LintFacts,
    *,
    kind: str | None = None,
    name: str = "the text",
    off: Collection[str] = (),
    pieces: tuple[Piece, ...] = (),
    corrections: bool = True,
    linked_programs: tuple[LinkedProgram, ...] = (),
) -> Linted:
    """Everything that is found of a text; `name` is what to call it. `off`: rules that may not judge; `pieces`: the
    files in the text; `corrections`: with the corrected text too; `linked_programs`: with what they import."""
    try:
        job = read_job(text, known, kind)
    except EmptyText as error:
        raise CannotTell(f"{name}: {error}") from None
    except UnreadableText as error:
        raise BadInput(f"{name}: {error}") from None
    job = structs.replace(job, linked=linked_programs) if linked_programs else job
    return linted(job, rules_for(job), off=off, pieces=pieces, corrections=corrections)


def command_text(words: Sequence[str]) -> str:
    """Words of a command line as a shell reads them back; a single word is a line that was quoted as a whole."""
    if len(words) == 1:
        return words[0] + "\n"
    written: list[str] = []
    in_front = True
    for word in words:
        assigned = ASSIGNMENT.fullmatch(word) if in_front else None
        in_front = assigned is not None
        written.append(assigned[1] + shlex.quote(assigned[2]) if assigned else shlex.quote(word))
    return " ".join(written) + "\n"


def text_of(file: str, name: str) -> str:
    """The text in a file, or on standard input for "-"."""
    return text_and_codec(file, name)[0]


def text_and_codec(file: str, name: str) -> tuple[str, str]:
    """The text in a file, and how it is to be written again."""
    try:
        return decoded(bounded.contents(file, bounded.SCRIPT.size))
    except ValueError as error:
        raise BadInput(f"{name} {error}") from None
    except bounded.Refused as error:
        hint = "; a command is given after --: gpudoctor lint -- torchrun ..." if "no such file" in str(error) else ""
        raise BadInput(f"{name}: {error}{hint if ' ' in file else ''}") from None


def decoded(raw: bytes) -> tuple[str, str]:
    """The text, and its codec. Raises `ValueError`."""
    for mark, codec in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):  # Windows PowerShell's >
        if raw.startswith(mark):
            return raw[2:].decode(codec, "replace"), codec
    if b"\0" in raw:
        raise ValueError("is no text: it holds zero bytes")
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"


NOTHING = LintFacts()


class AskedFacts(Struct, frozen=True):
    """What is known of any text that is asked about."""

    given: LintFacts = NOTHING
    """--facts and --env."""
    version: str | None = None
    found: LintFacts = NOTHING
    """What is installed for the training."""
    is_chosen: bool = False
    """The interpreter of that was named: the training's own."""

    def of(self, text: str, config: LintFacts = NOTHING, file: str = "") -> LintFacts:
        """--facts, then --framework-version, then the repository's config, then what it asks pip or conda for, then
        what is installed."""
        known = self.given
        if self.version is not None:
            name = framework_named(text)
            known = structs.replace(
                known, versions={name: self.version, **known.versions}, given=tuple(dict.fromkeys((*known.given, name)))
            )
        facts = structs.replace(merged(known, config), given=tuple(dict.fromkeys((*known.given, *config.given))))
        if not file or self.is_chosen:
            return merged(facts, self.found)
        told = {**self.found.versions, **pinned(file, self.found.versions)}
        versions = {name: version for name, version in told.items() if version}
        return merged(facts, structs.replace(self.found, versions=versions))


def asked_facts(given: str | None, version: str | None, env: str | None, python: str | None) -> AskedFacts:
    """What the options tell. `env`: a file of NAME=value."""
    try:
        known = parse_facts(given) if given is not None else LintFacts()
    except FactsProblem as error:
        raise BadInput(f"--facts {given}: {error}") from None
    if version is not None and not VERSION.fullmatch(version):
        raise BadInput(f"--framework-version {version}: no version, such as 1.9.5")
    if env is not None:
        try:
            variables = read_env_file(text_of(env, f"--env {env}"))
        except FactsProblem as error:
            raise BadInput(f"--env {env}: {error}") from None
        known = structs.replace(known, variables={**variables, **known.variables})
    found = LintFacts(versions=installed(choose(python, os.environ).path))
    return AskedFacts(known, version, found, python is not None)


def facts_of(text: str, given: str | None, version: str | None, env: str | None, python: str | None) -> LintFacts:
    """--facts, then --framework-version, then what is installed for the training. `env`: a file of NAME=value."""
    return asked_facts(given, version, env, python).of(text)


def framework_named(text: str) -> str:
    """Which package --framework-version is of: that of the launcher in the text; Lightning for plain python."""
    for launcher in registry.every():
        names = "|".join(re.escape(name) for form in launcher.forms for name in (*form.programs, *form.modules))
        if not launcher.bare and names and re.search(rf"(?<![\w.-])(?:{names})(?![\w-])", text):
            return launcher.package or "torch"
    return "lightning"
