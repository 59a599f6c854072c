"""The commands inside manifests: a container's `command` and `args`, `sh -c` scripts, entrypoints -> invocations.

Spans lie in the whole text. Where YAML changed the characters (escapes), they cover the whole value and are not exact.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from gpudoctor.launcher import registry
from gpudoctor.launcher.traits import ManifestKind
from gpudoctor.launcher.understand import with_entrypoint
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import (
    Expansion,
    Invocation,
    LintFacts,
    Manifest,
    ManifestValue,
    SetVariable,
    Span,
    TextSection,
    Word,
)
from gpudoctor.lint.shell import invocations as read_shell
from gpudoctor.lint.shell.wrappers import starts_ranks

SHELLS = ("sh", "bash", "dash", "zsh", "ash")
REFERENCE = lazy_re(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
"""Kubernetes' own expansion in command, args and env: $(NAME); $$ is a dollar."""
COMMAND_KEYS = frozenset(
    (
        "command",
        "run",
        "entrypoint",
        "cmd",
        "script",
        "commands",
        "start_cmd",
        "startCmd",
        "launch_command",
        "source",
        "cmds",
        "shell",
    )
)
_HANDS_ON = lazy_re(r"\.sh$|entry[_-]?point|^(?:tini|dumb-init)$")
SHELL = lazy_re(r"\s*(?:/\S*/)?(?:ba|z|da|k)?sh\b")
Path = tuple[str, ...]


class _Inside(Struct):
    """What the command of a container runs in."""

    text: str
    newlines: list[int]
    path: Path
    facts: LintFacts
    settings: dict[str, SetVariable]
    notes: list[str]
    section: int
    by_compose: bool = False
    """compose fills $NAME and ${NAME} in before a container exists."""
    by_kubelet: bool = False
    """The kubelet fills $(NAME) in before a shell reads it."""


def invocations_of(
    text: str, manifest: Manifest, facts: LintFacts, section: int = 0
) -> tuple[tuple[Invocation, ...], tuple[str, ...]]:
    """The commands of its containers (`understand` makes launches of them), and notes of what was not understood.

    `text` is the whole text, in which the manifest's spans lie. `Invocation.manifest_path` names the container.
    """
    by_path = {value.path: value for value in manifest.values}
    newlines = [match.end() for match in re.finditer("\n", text)]
    notes: list[str] = [f"a manifest was read in part only: {manifest.fault}"] if manifest.fault else []
    invocations: list[Invocation] = []
    for path in _containers(manifest):
        settings = _environment(by_path, path)
        known = {name: setting.word.text for name, setting in settings.items() if setting.word.text is not None}
        own = structs.replace(facts, variables={**facts.variables, **known})
        inside = _Inside(
            text, newlines, path, own, settings, notes, section,
            by_compose=manifest.kind == "Compose", by_kubelet=bool(manifest.api_version),
        )  # fmt: skip
        values = [*_list(by_path, (*path, "command")), *_list(by_path, (*path, "args"))]
        if values:
            commands = _command(tuple(_word(value, settings, inside) for value in values), values, inside, ())
            invocations += _of_image(commands, by_path.get((*path, "image")))
    for path in _scripts(manifest, by_path):
        inside = _Inside(text, newlines, path[:-1], facts, _task_environment(by_path, manifest), notes, section)
        inside.facts = structs.replace(
            facts, variables={**facts.variables, **{k: s.word.text for k, s in inside.settings.items() if s.word.text}}
        )
        invocations += _of_image(_shell(by_path[path], inside, ()), by_path.get((*path[:2], "image")))
    return tuple(invocations), tuple(notes)


def _of_image(invocations: list[Invocation], image: ManifestValue | None) -> list[Invocation]:
    """With the program of an image that gets arguments alone."""
    if image is None:
        return invocations
    return [invocation if invocation.within else with_entrypoint(invocation, image.value) for invocation in invocations]


def _containers(manifest: Manifest) -> list[Path]:
    """The paths of what has a command: containers of pod templates, a TrainJob's trainer, a list that is a command in
    whatever document."""
    paths: dict[Path, None] = {}
    for value in manifest.values:
        path = value.path
        for index, key in enumerate(path[:-1]):
            if key == "containers" and path[index + 1].isdigit():
                paths.setdefault(path[: index + 2])
        if path[-1:] == ("0",) and path[-2:-1] in (("command",), ("args",)):
            paths.setdefault(path[:-2])
        if path[:2] == ("spec", "trainer"):
            paths.setdefault(path[:2])
    return list(paths)


def _scripts(manifest: Manifest, by_path: dict[Path, ManifestValue]) -> Iterator[Path]:
    """Values that are shell lines: RayJob's entrypoint, SkyPilot's run, dstack's commands."""
    kind = registry.manifest_kinds().get(manifest.kind)
    if kind is not None and kind.script == "*":
        for path in by_path:
            shell = by_path.get((*path[:-1], "shell"))  # a step of a workflow may be another program's
            if any(key in COMMAND_KEYS for key in _keys(path)) and (shell is None or SHELL.match(shell.value)):
                yield path
    elif kind is not None and kind.script:
        script = tuple(kind.script.split("."))
        yield from (path for path in by_path if script in (path, path[:-1]))


def _keys(path: Path) -> Iterator[str]:
    """The last key of a path; of `commands: [...]`, whose items are lines, that of the list."""
    if path and not path[-1].isdigit():
        yield path[-1]
    elif len(path) > 1 and path[-2] in ("commands", "run", "script"):
        yield path[-2]


def _list(by_path: dict[Path, ManifestValue], path: Path) -> list[ManifestValue]:
    manifest_values: list[ManifestValue] = []
    while (value := by_path.get((*path, str(len(manifest_values))))) is not None:
        manifest_values.append(value)
    return manifest_values


def _environment(by_path: dict[Path, ManifestValue], path: Path) -> dict[str, SetVariable]:
    """A container's `env`. A value that comes from elsewhere (valueFrom) is set, and not known."""
    variables: dict[str, SetVariable] = {}
    index = 0
    while (name := by_path.get((*path, "env", str(index), "name"))) is not None:
        value = by_path.get((*path, "env", str(index), "value"))
        if value is None:
            word = Word(raw="", text=None, shown=f"$({name.value})", span=name.span)
        else:
            word = Word(raw=value.value, text=value.value, shown=value.value, span=value.span, quoted=True)
            if REFERENCE.search(value.value):
                word = _expanded(word, variables)
        variables[name.value] = SetVariable(name.value, word, True, "manifest")
        index += 1
    return variables


def _task_environment(by_path: dict[Path, ManifestValue], manifest: Manifest) -> dict[str, SetVariable]:
    """`envs:` of SkyPilot, `env:` of dstack where it is a mapping."""
    kind = registry.manifest_kinds().get(manifest.kind)
    if kind is None:
        return {}
    return _numbers(by_path, kind) | {
        path[1]: SetVariable(
            path[1], Word(raw=value.value, text=value.value, shown=value.value, span=value.span), True, "manifest"
        )
        for path, value in by_path.items()
        if len(path) == 2 and path[0] == kind.variables and not path[1].isdigit()
    }


def _numbers(by_path: dict[Path, ManifestValue], kind: ManifestKind) -> dict[str, SetVariable]:
    """What a service sets by the task's own numbers, where these are told."""
    values = {".".join(path): value.value for path, value in by_path.items()}
    nodes = int(values[kind.nodes]) if re.fullmatch(r"[0-9]{1,5}", values.get(kind.nodes, "")) else None
    gpus = kind.gpus(values) if kind.gpus is not None else None
    each = nodes if kind.nodes in values else 1
    numbers = {"nodes": nodes, "gpus": gpus, "all gpus": gpus * each if gpus is not None and each is not None else None}
    span = next(iter(by_path.values())).span
    told = {name: str(numbers[what]) for name, what in kind.sets.items() if numbers[what] is not None}
    return {
        name: SetVariable(name, Word(raw=value, text=value, shown=value, span=span), True, "manifest")
        for name, value in told.items()
    }


def _word(value: ManifestValue, settings: dict[str, SetVariable], inside: _Inside) -> Word:
    raw = inside.text[value.span.start : value.span.end]
    exact = raw.strip("\"'") == value.value
    span = value.span if exact else Span(value.span.start, value.span.end, value.span.line, False)
    word = Word(
        raw=raw,
        text=None if "{{" in value.value else value.value,  # a template's, which Argo or Helm fills in
        shown=value.value,
        span=span,
        quoted=raw[:1] in ("'", '"'),
        literal_dollar=re.search(r"\$\{?\w", value.value) is not None,
    )
    if inside.by_compose:
        return _by_compose(word, inside.facts.variables) if "$" in value.value else word
    return _expanded(word, settings) if REFERENCE.search(value.value) else word


COMPOSE = lazy_re(r"\$\$|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?([-?+])([^{}]*))?\})", re.ASCII)


def _by_compose(word: Word, variables: dict[str, str]) -> Word:
    """As compose hands it on: with its variables' values, those of .env where that is given, and the defaults."""
    pieces: list[str | None] = []
    end = 0
    for match in COMPOSE.finditer(word.shown):
        pieces.append(word.shown[end : match.start()])
        end = match.end()
        name = match[1] or match[2]
        default = match[4] if match[3] == "-" else None
        pieces.append(variables.get(name, default) if name else "$")
    pieces.append(word.shown[end:])
    known = [piece for piece in pieces if piece is not None]
    text = "".join(known) if len(known) == len(pieces) else None
    return structs.replace(word, text=text, shown=text if text is not None else word.shown, literal_dollar=False)


def _expanded(word: Word, settings: dict[str, SetVariable]) -> Word:
    """With `$(NAME)` replaced. A name that the manifest does not set may come from the operator: not known."""
    expansions = []
    pieces: list[str | None] = []
    end = 0
    for match in REFERENCE.finditer(word.shown):
        pieces.append(word.shown[end : match.start()])
        end = match.end()
        if match[1] is None:
            pieces.append("$")
            continue
        setting = settings.get(match[1])
        value = setting.word.text if setting is not None else None
        pieces.append(value)
        expansions.append(Expansion(match[1], match[0], value, True if setting is not None else None))
    pieces.append(word.shown[end:])
    known = [piece for piece in pieces if piece is not None]
    text = "".join(known) if len(known) == len(pieces) and sum(map(len, known)) <= 100_000 else None
    return structs.replace(
        word, text=text, shown=text if text is not None else word.shown, expansions=tuple(expansions)
    )


def _command(
    words: tuple[Word, ...], values: Sequence[ManifestValue], inside: _Inside, within: tuple[Invocation, ...]
) -> list[Invocation]:
    """A command given as a list: itself, and what it starts."""
    program = words[0].shown.rpartition("/")[2]
    span = Span(words[0].span.start, words[-1].span.end, words[0].span.line, False)
    this = Invocation(
        program=program,
        words=words,
        settings=inside.settings,
        span=span,
        section=inside.section,
        manifest_path=inside.path,
        within=within,
    )
    if len(within) > 8:
        return [this]
    if program in SHELLS:
        at = next((index for index, word in enumerate(words[1:], 1) if re.fullmatch(r"-[a-z]*c", word.shown)), None)
        if at is not None and at + 1 < len(words):
            return [this, *_shell(values[at + 1], inside, (*within, this))]
        return [this]
    if _HANDS_ON.search(program) and len(words) > 1 and starts_ranks(words[1]):
        return [this, *_command(words[1:], values[1:], inside, (*within, this))]  # an entrypoint that ends in exec "$@"
    if (starter := registry.starts_tasks(program, *(word.shown for word in words[1:3]))) is not None:
        end = starter.form.grammar.read(words, starter.start).end
        if end < len(words):
            return [this, *_command(words[end:], values[end:], inside, (*within, this))]
    return [this]


def _shell(value: ManifestValue, inside: _Inside, within: tuple[Invocation, ...]) -> list[Invocation]:
    """A shell script in a value, read by the shell's reader and put back into the whole text."""
    script = value.value
    if inside.by_kubelet:  # $(NAME) of a variable of the container is ${NAME} to us, and as long
        script = REFERENCE.sub(lambda match: f"${{{match[1]}}}" if match[1] in inside.settings else match[0], script)
    shell = read_shell(script, (TextSection("every", text=script),), inside.facts, False)
    inside.notes.extend(f"in the script of line {value.span.line}: {note}" for note in shell.notes)
    moved = _Moved(value, inside, origins(inside.text[value.span.start : value.span.end], value.value))
    words = []
    for invocation in shell.invocations:
        # variables of the manifest count as given to the shell's reader: its own settings win, theirs come from here
        own = {
            name: setting
            for name, setting in invocation.settings.items()
            if setting.how != "file" or name not in inside.settings
        }
        placed: Invocation = moved(structs.replace(invocation, settings=own))
        words.append(
            structs.replace(
                placed,
                settings={**inside.settings, **placed.settings},
                section=inside.section,
                manifest_path=inside.path,
                within=(*within, *placed.within),
            )
        )
    return words


def origins(raw: str, value: str) -> list[int] | None:
    """For every character of a value, where it stands in its YAML text; None where escapes changed the characters.

    Blanks may be folded by YAML: they are put behind the character before them.
    """
    at = 1 if raw[:1] in ("'", '"') else 0
    if raw[:1] in "|>" and raw:
        at = raw.find("\n") + 1
        if at == 0:
            return None
    known_origins = []
    for letter in value:
        if letter.isspace():
            known_origins.append(min(at, len(raw)))
            at += int(at < len(raw) and raw[at].isspace())
            continue
        while at < len(raw) and raw[at].isspace():
            at += 1
        if at >= len(raw) or raw[at] != letter:
            return None
        known_origins.append(at)
        at += 1
    return known_origins


class _Moved:
    """Puts every span of a struct, made for a value, into the whole text."""

    def __init__(self, value: ManifestValue, inside: _Inside, places: list[int] | None) -> None:
        self.whole = Span(value.span.start, value.span.end, value.span.line, False)
        self.inside = inside
        self.places = places

    def span(self, span: Span) -> Span:
        places = self.places
        if places is None or not 0 <= span.start <= span.end <= len(places) or not places:
            return self.whole
        base = self.whole.start
        begin = base + (places[span.start] if span.start < len(places) else places[-1] + 1)
        end = base + places[span.end - 1] + 1 if span.end > span.start else begin
        return Span(begin, max(begin, end), 1 + bisect_right(self.inside.newlines, begin), span.exact)

    def __call__(self, thing: Any) -> Any:
        if isinstance(thing, Span):
            return self.span(thing)
        if isinstance(thing, Struct):
            changed = {}
            for name in thing.__struct_fields__:
                old = getattr(thing, name)
                if isinstance(old, (Struct, tuple, dict)):
                    changed[name] = self(old)
            return structs.replace(thing, **changed) if changed else thing
        if isinstance(thing, tuple):
            return tuple(self(item) for item in thing)
        if isinstance(thing, dict):
            return {key: self(item) for key, item in thing.items()}
        return thing
