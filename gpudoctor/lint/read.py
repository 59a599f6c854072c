"""A text -> everything that it says (`model.Job`)."""

import functools
import re
from itertools import islice
from typing import Any, Literal

from msgspec import Struct, structs

from gpudoctor.errors import BadInput
from gpudoctor.launcher import registry
from gpudoctor.launcher.understand import understand
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import dockerfile, helm, hostfiles, makefile, manifests, notebook, trainers
from gpudoctor.lint.accelerate_config import with_config
from gpudoctor.lint.facts import FactsProblem, read_env_file
from gpudoctor.lint.model import (
    Hostfile,
    Invocation,
    LintFacts,
    LintJob,
    LintLaunch,
    Manifest,
    SbatchOption,
    Span,
    TextSection,
    TrainerCall,
)
from gpudoctor.lint.own_defaults import defaults
from gpudoctor.lint.python_text import parsed
from gpudoctor.lint.quotes import without_documents
from gpudoctor.lint.sections import split
from gpudoctor.lint.shell import invocations
from gpudoctor.lint.shell.sbatch import looks_like_batch
from gpudoctor.lint.shell.wrappers import SHELLS

MOST_CHARACTERS = 1 << 20
MOST_LAUNCHES = 4096
"""Starts of one text that the rules look at."""
Kind = Literal["shell", "sbatch", "manifest", "hostfile", "python"]
KINDS: dict[str, Kind] = {
    "shell": "shell", "sbatch": "sbatch", "slurm": "sbatch", "manifest": "manifest", "k8s": "manifest",
    "kubernetes": "manifest", "yaml": "manifest", "hostfile": "hostfile", "python": "python",
}  # fmt: skip
HOSTFILE_NAME = lazy_re(r"(?:^|[/_.-])(?:host_?file|hosts?|machine_?file|machines)(?:$|[_.-])", re.IGNORECASE)
FIT = lazy_re(r"\bfit\b.*")
CONFIG = lazy_re(r"--config[ =][\"']?([^\s;&|\"']+)")
HOSTS = lazy_re(r"-(?:hostfile|machinefile|deepspeed_hostfile)[= ](\S+)")
HEADER = lazy_re(r"#!.*\n(?:[ \t]*(?:#.*)?\n)*")
SLURM_BODY = lazy_re(r"\$\{?SLURM_\w")
SRUN = lazy_re(r"^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*srun\b", re.MULTILINE)
PYTHON = lazy_re(r"^(?:import \w|from [\w.]+ import |def \w+\(|class \w+|if __name__ ?==)", re.MULTILINE)
SHEBANG_PYTHON = lazy_re(r"\A#![^\n]*python")


class UnreadableText(BadInput):
    """Nothing can be said of this text; the message is one line for the user."""


class EmptyText(UnreadableText):
    """There is nothing in it to judge."""


def read_job(text: str, facts: LintFacts, kind: str | None = None) -> LintJob:
    """Read a shell text, sbatch file, hostfile, manifest or Python text; `kind` is guessed when it is not given.

    Raises Unreadable.
    """
    if len(text) > MOST_CHARACTERS:
        raise UnreadableText(f"the text has {len(text)} characters; {MOST_CHARACTERS} are read at most")
    if not text.strip("\ufeff \t\r\n"):
        raise EmptyText("the text is empty")
    if "\x00" in text:
        raise UnreadableText(f"this is no text: it has a NUL character at offset {text.index(chr(0))}")
    if kind is not None and kind not in KINDS:
        raise UnreadableText(f"{kind!r} is no kind of text; known: {', '.join(KINDS)}")
    sections = _as_they_are_read(split(text))
    job = _job(text, sections, facts, kind)
    if sum(section.kind == "file" and section.name.endswith(".py") for section in sections) < 2:
        return job
    from gpudoctor.lint.linking import of_sections

    return structs.replace(job, linked=of_sections(sections))


def _job(text: str, sections: tuple[TextSection, ...], facts: LintFacts, kind: str | None) -> LintJob:
    kind_of_text = KINDS[kind] if kind is not None else guess(text, sections)
    if kind_of_text == "manifest":
        return _manifest(text, sections, facts)
    if kind_of_text == "hostfile":
        return LintJob(
            text=text, kind=kind_of_text, sections=sections, facts=facts, hostfiles=(hostfiles.read_hostfile(text),)
        )
    if kind_of_text == "python":
        started = _started_by_python(text, facts)
        launches, left_out = _launches(started)
        return LintJob(
            text=text, kind=kind_of_text, sections=sections, facts=facts, invocations=started, launches=launches,
            trainers=tuple(call for each in sections for call in trainers.calls(each.text, each.start, each.line)),
            notes=left_out,
        )  # fmt: skip
    if kind_of_text == "shell" and makefile.looks_like_makefile(text):
        own = {**makefile.variables(text), **facts.variables}
        return structs.replace(read_shell(text, sections, structs.replace(facts, variables=own), "shell"), facts=facts)
    job = read_shell(text, sections, facts, kind_of_text)
    if not job.launches and (told := defaults(text)):
        as_it_stands = structs.replace(facts, variables={**told, **facts.variables})
        taken = read_shell(text, sections, as_it_stands, kind_of_text)
        return structs.replace(taken, facts=facts) if taken.launches else job
    return job


def _as_they_are_read(sections: tuple[TextSection, ...]) -> tuple[TextSection, ...]:
    """With Makefiles as shell, notebooks as Python or shell and Helm's templates filled in, each of the same length."""
    read: list[TextSection] = []
    chart: dict[str, str] | None = None
    for section in sections:
        text = section.text
        if section.kind != "file" and makefile.looks_like_makefile(text):
            text = makefile.as_shell(text)
        elif notebook.looks_like_notebook(text):
            text = notebook.as_it_is_run(text)
        elif helm.is_template(text):
            chart = helm.values_of(sections) if chart is None else chart
            text = helm.filled(text, chart) if chart else text
        read.append(section if text is section.text else structs.replace(section, text=text))
    return tuple(read)


def guess(text: str, sections: tuple[TextSection, ...]) -> Kind:
    """What kind of text this is. Only a text without sections can be anything but shell."""
    commands = [section for section in sections if section.kind != "file"]
    if any(section.kind in ("node", "job") for section in sections):
        return "shell" if not any(map(_is_batch, commands)) else "sbatch"
    body = commands[0].text if len(commands) == 1 else text
    if any(map(_is_batch, commands)):
        return "sbatch"
    if manifests.looks_like_manifest(body) or dockerfile.looks_like_dockerfile(body):
        return "manifest"
    if len(sections) == 1 and hostfiles.looks_like_hostfile(body):
        return "hostfile"
    if SHEBANG_PYTHON.match(body) or (PYTHON.search(body) and not SHELL_WORDS.search(body)):
        return "python"
    if PASTED_CALL.search(body) and parsed(body) is not None:
        return "python"  # lines of a program, without its head
    # The body of a batch script without its header: the options were on sbatch's command line.
    own = without_documents(body)
    return "sbatch" if SRUN.search(own) and SLURM_BODY.search(own) else "shell"


def _is_batch(section: TextSection) -> bool:
    """The header of a script that it writes, or hands to sbatch, is not its own."""
    return looks_like_batch(without_documents(section.text))


def kind_of_name(name: str, text: str) -> Kind | None:
    """What a file is by the end of its name, whatever is quoted in it. None: what it looks like."""
    if name.endswith((".yaml", ".yml")) and not text.startswith("#!"):
        return "manifest"  # a header in one of its values is handed to somebody: of sbatch's lines none begins there
    is_program, head = name.endswith(".py"), HEADER.match(text)
    if looks_like_batch(text) and (not is_program or (head is not None and "#SBATCH" in head[0])):
        return None  # a Python program that is given to sbatch: what a docstring quotes is no header
    return "python" if is_program else None


PASTED_CALL = lazy_re(rf"{trainers.CALL.pattern}|^os\.environ\[|\.cuda\(|\.to\([\"']cuda", re.MULTILINE)
SHELL_WORDS = lazy_re(
    r"^[ \t]*(?:#!/bin/|export \w+=|(?:\w+=\S*[ \t]+)*(?:torchrun|python[\d.]*|srun|mpirun|accelerate|deepspeed) )",
    re.MULTILINE,
)


def _manifest(text: str, sections: tuple[TextSection, ...], facts: LintFacts) -> LintJob:
    read: list[Manifest] = []
    commands: list[Invocation] = []
    notes: list[str] = []
    files = _Files(text)
    for section in sections:
        if section.kind == "file" and not _is_document(section):
            files.add(section)
            continue
        for manifest in _documents(section):
            read.append(manifest)
            own = _with_env_file(sections, facts) if manifest.kind == "Compose" else facts
            inner, said = manifests.invocations_of(text, manifest, own)
            commands += inner
            notes += said
            for invocation in inner:
                commands += _of_script(text, invocation, sections, facts)
    read = manifests.patched(read)
    launches, left_out = _launches(commands)
    return LintJob(
        text=text, kind="manifest", sections=sections, facts=facts, manifests=tuple(read),
        invocations=tuple(commands), launches=launches, notes=(*dict.fromkeys(notes), *left_out),
        hostfiles=tuple(files.hostfiles), trainers=tuple(files.trainers),
    )  # fmt: skip


def _with_env_file(sections: tuple[TextSection, ...], facts: LintFacts) -> LintFacts:
    """With the variables of the .env beside a compose file, which compose reads itself."""
    for section in sections:
        if section.kind == "file" and section.name.rpartition("/")[2] == ".env":
            try:
                return structs.replace(facts, variables={**read_env_file(section.text), **facts.variables})
            except FactsProblem:
                break
    return facts


def _of_script(
    text: str, invocation: Invocation, sections: tuple[TextSection, ...], facts: LintFacts
) -> tuple[Invocation, ...]:
    """What a script does that a container is started with, where it is given too."""
    words = invocation.words if invocation.program.endswith(".sh") else invocation.words[1:2]
    if invocation.program not in SHELLS and not invocation.program.endswith(".sh"):
        return ()
    name = words[0].shown.rpartition("/")[2] if words else ""
    index = next((i for i, each in enumerate(sections) if each.kind == "file" and each.name.endswith(name)), None)
    if index is None or not name.endswith(".sh"):
        return ()
    others = tuple(each for each in sections if each.kind == "file" and each.name.endswith(".sh"))
    own = structs.replace(sections[index], kind="every")
    known = {name: each.word.text for name, each in invocation.settings.items() if each.word.text is not None}
    given = structs.replace(facts, variables={**facts.variables, **known})
    return tuple(
        structs.replace(
            each, section=index, manifest_path=invocation.manifest_path, within=(invocation, *each.within),
            settings={**invocation.settings, **each.settings},
        )
        for each in invocations(text, (own, *others), given, batch=False).invocations
    )  # fmt: skip


def _is_document(section: TextSection) -> bool:
    return section.name.endswith((".yaml", ".yml", ".json")) or dockerfile.looks_like_dockerfile(section.text)


def _documents(section: TextSection) -> tuple[Manifest, ...]:
    if dockerfile.looks_like_dockerfile(section.text):
        return (dockerfile.read_dockerfile(section.text, section.start, section.line),)
    return manifests.read_manifests(section.text, section.start, section.line)


def read_shell(text: str, sections: tuple[TextSection, ...], facts: LintFacts, kind: Kind) -> LintJob:
    """The job of a text whose sections are known."""
    shell = invocations(text, sections, facts, batch=kind == "sbatch")
    files = _Files(text)
    commands, notes = [*shell.invocations], [*shell.notes]
    for index, section in enumerate((*sections, *shell.files)):
        if section.kind == "file":
            # `kubectl apply -f`, `sky launch`: what starts stands in the manifest beside
            for manifest in files.add(section):
                inner, said = manifests.invocations_of(text, manifest, facts, index)
                commands += inner
                notes += said
        elif "Trainer(" in section.text or "Fabric(" in section.text:
            files.trainers += trainers.calls(section.text, section.start, section.line)
    launches, left_out = _launches(commands)
    launches = tuple(with_config(launch, sections) for launch in launches)
    if any(option.name for option in shell.every_sbatch) and any(
        invocation.where == "batch" for invocation in shell.invocations
    ):
        kind = "sbatch"
    return LintJob(
        text=text, kind=kind, sections=(*sections, *shell.files), facts=facts, invocations=tuple(commands),
        launches=launches, sbatch=in_force(shell.every_sbatch), every_sbatch=shell.every_sbatch,
        hostfiles=tuple(files.hostfiles), manifests=tuple(files.manifests), trainers=tuple(files.trainers),
        notes=(*dict.fromkeys(notes), *left_out), has_unread_source=shell.has_unread_source,
    )  # fmt: skip


def _started_by_python(text: str, facts: LintFacts) -> tuple[Invocation, ...]:
    """The commands of os.system and subprocess, each where its call stands."""
    from gpudoctor.lint.python_code import read_code
    from gpudoctor.lint.python_starts import commands

    code = read_code(split(text)[0].text) if len(split(text)) == 1 else None
    python_commands = list(commands(code)) if code is not None else []
    if not python_commands:
        return ()
    script = (
        "".join(f"{python_command.line}{'' if python_command.waits else ' &'}\n" for python_command in python_commands)
        + "wait\n"
    )
    shell = invocations(script, (TextSection("every", text=script),), facts, batch=False)

    def moved(thing: Any) -> Any:
        if isinstance(thing, Span):
            return structs.replace(python_commands[min(thing.line, len(python_commands)) - 1].span, exact=False)
        if isinstance(thing, Struct):
            return structs.replace(thing, **{name: moved(getattr(thing, name)) for name in thing.__struct_fields__})
        if isinstance(thing, tuple):
            return tuple(moved(item) for item in thing)
        return {key: moved(item) for key, item in thing.items()} if isinstance(thing, dict) else thing

    return tuple(moved(invocation) for invocation in shell.invocations if invocation.program != "wait")


class _Files:
    """What the `#@ file NAME` sections are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.hostfiles: list[Hostfile] = []
        self.manifests: list[Manifest] = []
        self.trainers: list[TrainerCall] = []

    def add(self, section: TextSection) -> tuple[Manifest, ...]:
        """Keeps what the file says; the manifests in it."""
        text, start, line = section.text, section.start, section.line
        if section.name.endswith(".py"):
            self.trainers += trainers.calls(text, start, line)
        elif section.name.endswith((".yaml", ".yml", ".json")):
            if manifests.looks_like_manifest(text):
                read = manifests.read_manifests(text, start, line)
                self.manifests += read
                return read
            if section.name.rsplit("/", 1)[-1] in self.configs:
                self.trainers += trainers.of_yaml(manifests.read_manifests(text, start, line))
        elif section.name.endswith((".sh", ".bash", ".sbatch", ".slurm", ".env")):
            return ()
        elif (
            HOSTFILE_NAME.search(section.name)
            or hostfiles.looks_like_hostfile(text)
            or section.name.rsplit("/", 1)[-1] in self.hosts
        ):
            self.hostfiles.append(hostfiles.read_hostfile(text, section.name, start, line))
        return ()

    @functools.cached_property
    def configs(self) -> frozenset[str]:
        """Names of the files that Lightning's command line is told of."""
        words = (word for said in FIT.finditer(self.text) for word in CONFIG.findall(said[0]))
        return frozenset(word.rsplit("/", 1)[-1] for word in words)

    @functools.cached_property
    def hosts(self) -> frozenset[str]:
        """Names of the files that a start names as those of its hosts."""
        return frozenset(text.rsplit("/", 1)[-1] for text in HOSTS.findall(self.text))


def _launches(commands: tuple[Invocation, ...] | list[Invocation]) -> tuple[tuple[LintLaunch, ...], tuple[str, ...]]:
    """The starts among the commands, and a note where there are more of them than are looked at."""
    understood_ones = (launch for command in commands if (launch := understand(command)) is not None)
    launches = _without_servers(tuple(islice(understood_ones, MOST_LAUNCHES)))
    following = next(understood_ones, None)
    if following is None:
        return launches, ()
    line = following.invocation.span.line
    return launches, (
        f"line {line}: {MOST_LAUNCHES} starts stand before it; this one and later ones were not looked at",
    )


def _without_servers(launches: tuple[LintLaunch, ...]) -> tuple[LintLaunch, ...]:
    """Servers count where nothing trains: a training with a server of samples beside it is judged by itself."""
    training = tuple(launch for launch in launches if not registry.traits(launch.launcher).serves)
    return training if any(launch.launcher != "python" for launch in training) else launches


def in_force(options: tuple[SbatchOption, ...]) -> dict[str, SbatchOption]:
    """The options that SLURM takes: the last one of each name."""
    return {option.name: option for option in options if not option.ignored}
