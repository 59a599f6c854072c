"""The one JSON form of all commands: what every answer says alike, in front of what the command has of its own.

A report type is an `Answer`: it names its command and says its findings once (`stated`). `encode` is what every --json
prints, `decode` what every --from reads, of this version and of earlier ones, which had a form a command.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import msgspec
from msgspec import Struct, field

from gpudoctor import __version__
from gpudoctor.check import Fix, Problem, Severity, without_lines
from gpudoctor.errors import BadInput
from gpudoctor.snapshot import Reading

SCHEMA = 3
"""Number of the layout, of all commands; 1 and 2 were theirs alone."""
Verdict = Literal["ready", "not ready", "cannot tell", "nothing wrong", "fault", "interrupted"]
"""nothing wrong, fault, cannot tell: exit status 0, 1, 3. ready, not ready: the first two of a whole machine (`check`).
interrupted: by Ctrl-C; what was found until then stands in it."""
VERDICTS: dict[int, Verdict] = {0: "nothing wrong", 1: "fault", 3: "cannot tell", 130: "interrupted"}
NOT_SEEN = "cause-not-seen"
"""The id of a failure or hang that is seen, and its cause is not."""
FORMER = {
    "torch-missing-on-node": "torch-missing",
    "gpu-direct-off": "gpu-direct-rdma-off",
    "head-unresolvable": "master-addr-unresolvable",
    "head-resolves-to-loopback": "master-addr-loopback",
    "hostname-loopback-on-node": "hostname-loopback",
    "rendezvous-port-busy": "master-port-busy",
    "rendezvous-port-blocked": "master-unreachable",
    "master-address-elsewhere": "master-addr-elsewhere",
    "address-unreachable-from-others": "socket-interface-loopback",
    "interface-missing-on-node": "socket-interface-missing",
    "clocks-differ": "clock-skew",
    "gpus-in-use": "gpu-busy",
    "mtu-differs-between-nodes": "mtu-mismatch",
    "data-over-tcp": "rdma-unused",
    "world-size-differs": "launcher-world-mismatch",
    "interfaces-share-no-subnet": "wrong-nic",
    "settings-differ-between-ranks": "nccl-settings-differ-between-ranks",
    "torch-versions-differ-between-ranks": "torch-versions-differ",
    "cuda-versions-differ-between-ranks": "cuda-versions-differ",
    "nccl-versions-differ-between-ranks": "nccl-versions-differ-between-nodes",
}
"""A former id -> the one that every command has for this trouble. None is ever used again."""
MOST_TEXT = 2000
"""Characters of one piece of evidence; the command's own part has all of it."""


class Seen(Struct, frozen=True):
    """A line of evidence."""

    source: str
    """ "rank 3 pid 4711 stack", "/proc/net/tcp", "train.log:17"."""
    text: str


class Stated(Struct, frozen=True, kw_only=True):
    """A finding, as every command publishes it; null is what does not apply."""

    id: str
    severity: Severity
    subject: str | None = None
    """What it concerns: "GPU 3", "node n01", "ranks 1, 2", "line 7"; null: the whole."""
    summary: str
    meaning: str | None = None
    """What it does to the run."""
    fix: Fix | None = None
    evidence: tuple[Seen, ...] = ()
    certainty: float | None = None
    """From 0 to 1, where the answer is concluded: 0.9 and above is shown, below 0.5 one of several that fit."""
    kind: str | None = field(name="class", default=None)
    """Class, blame and restart as `gpudoctor explain` has them, of a cause."""
    blame: str | None = None
    restart: str | None = None


def subject(
    *,
    gpus: tuple[int, ...] = (),
    nodes: tuple[str, ...] = (),
    ranks: tuple[int, ...] = (),
    nic: str = "",
) -> str | None:
    """In words, the widest first."""
    groups = (("node", tuple(nodes)), ("rank", tuple(ranks)), ("GPU", tuple(gpus)), ("NIC", (nic,) if nic else ()))
    words = [f"{name}{'s' if len(each) > 1 else ''} {', '.join(map(str, each))}" for name, each in groups if each]
    return ", ".join(words) or None


def stated(id: str, problem: Problem, about: str | None = None) -> Stated:
    """A check's problem, or one of the same form, under its id."""
    return Stated(
        id=id,
        severity=problem.severity,
        subject=about or subject(gpus=problem.gpus),
        summary=problem.summary,
        meaning=problem.meaning or None,
        fix=problem.fix,
        evidence=tuple(Seen(reading.source, _text(reading)) for reading in problem.evidence),
    )


def _text(reading: Reading[Any]) -> str:
    if not reading.is_read:
        return reading.reason
    value = reading.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " ..."


class Answer(Struct, frozen=True, kw_only=True):
    """What a command answers. Its fields are the command's own part."""

    gpudoctor: str = __version__
    """The version that found it."""
    machine: str | None = None
    """What was examined, in one line."""

    command: ClassVar[str]
    signs: ClassVar[tuple[str, ...]]
    """Names in its JSON by which one of an earlier version is known: it does not say its command."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that are published beside the fields."""

    def stated(self) -> Iterator[Stated]:
        """Its findings, each once, the worst first."""
        yield from ()

    @property
    def exit_status(self) -> int:
        """Of its command: see docs/exit-status.md."""
        return int(any(each.severity == "error" for each in self.stated()))

    def verdict_for(self, exit_status: int) -> Verdict:
        """The verdict, for the status with which the command ends."""
        return VERDICTS.get(exit_status, "cannot tell")

    def without_lines(self: "A") -> "A":
        """As it may be shown when it comes from a file: whoever wrote that chose the lines to paste."""
        return without_lines(self)

    def about(self) -> str | None:
        """What was examined, where `machine` does not tell; None where no machine, job or file was."""
        return None

    @classmethod
    def of_earlier(cls, tree: dict[str, Any]) -> dict[str, Any]:
        """What an earlier version wrote, in today's names."""
        return tree


A = TypeVar("A", bound=Answer)


class Envelope(Struct, frozen=True, kw_only=True):
    """What the JSON of every command begins with."""

    schema: int = SCHEMA
    gpudoctor: str
    """The version that found it."""
    command: str
    machine: str | None
    """What was examined, in one line."""
    verdict: Verdict
    exit_status: int
    findings: tuple[Stated, ...]


def envelope(answer: Answer, exit_status: int | None = None) -> Envelope:
    """`exit_status`: that of the command where an option makes it another (--strict)."""
    status = answer.exit_status if exit_status is None else exit_status
    return Envelope(
        gpudoctor=answer.gpudoctor,
        command=answer.command,
        machine=answer.machine or answer.about() or None,
        verdict=answer.verdict_for(status),
        exit_status=status,
        findings=tuple(answer.stated()),
    )


def encode(answer: Answer, exit_status: int | None = None) -> bytes:
    """The answer as every --json prints it; its schema is docs/schemas/COMMAND.json."""
    own = msgspec.to_builtins(answer) | {name: getattr(answer, name) for name in answer.derived}
    head = msgspec.to_builtins(envelope(answer, exit_status))
    return msgspec.json.format(msgspec.json.encode(head | {**own, **head}), indent=2)


class UnreadableAnswer(BadInput):
    """Bytes that are no answer of the command; the message is one line for the user."""


class _AnswerHead(Struct):
    """What tells whose answer it is."""

    schema: int = 0
    command: str = ""


def decode(raw: bytes, form: type[A]) -> A:
    """Read what `encode` wrote, without the lines to paste: whoever wrote the file chose them.

    Raises `UnreadableAnswer`, also for an answer of another command.
    """
    try:
        head = msgspec.json.decode(raw, type=_AnswerHead)
        if head.command not in ("", form.command):
            raise UnreadableAnswer(_of_another(head.command))
        if head.schema > SCHEMA:
            raise UnreadableAnswer(
                f"{form.command} schema {head.schema}; this gpudoctor reads up to schema {SCHEMA}: upgrade gpudoctor"
            )
        if not head.command:
            tree = msgspec.json.decode(raw, type=dict[str, Any])
            if lacking := [name for name in form.signs if name not in tree]:
                raise UnreadableAnswer(f"not an answer of gpudoctor {form.command} --json: it has no `{lacking[0]}`")
            raw = msgspec.json.encode(with_todays_ids(form.of_earlier(tree)))
        return msgspec.json.decode(raw, type=form).without_lines()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableAnswer(f"not an answer of gpudoctor {form.command} --json: {error}") from None


def with_todays_ids(tree: Any) -> Any:
    if isinstance(tree, dict):
        named = tree.get("id")
        today = {"id": FORMER[named]} if isinstance(named, str) and named in FORMER else {}
        return {key: with_todays_ids(value) for key, value in tree.items()} | today
    return [with_todays_ids(each) for each in tree] if isinstance(tree, list) else tree


def _of_another(command: str) -> str:
    """Whatever the file says is its command is no word for a line to paste."""
    return f"it is an answer of another command ({command[:20]!a}), whose --from reads it"


def is_answer(raw: bytes, form: type[A]) -> bool:
    """Whether it says that it is one of this command, or has what those of earlier versions have."""
    try:
        tree = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        named = msgspec.json.decode(tree.get("command", b'""'), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return named == form.command if named else all(name in tree for name in form.signs)


def schema(form: type[Answer]) -> dict[str, Any]:
    """The JSON Schema of a command's answer."""
    hints = {name: get_type_hints(getattr(form, name).fget)["return"] for name in form.derived}
    every = [Envelope, form, *hints.values()]
    references, definitions = msgspec.json.schema_components(every, ref_template="#/$defs/{name}")
    head, own = definitions.pop("Envelope"), definitions[form.__name__]
    derived = dict(zip(hints, references[2:], strict=True))
    return {
        **head,
        "title": form.__name__,
        "description": own.get("description", ""),
        "properties": {**own["properties"], **derived, **head["properties"]},
        "required": [*head["required"], *(name for name in own["required"] if name not in head["properties"])],
        "$defs": {
            name: definition
            for name, definition in definitions.items()
            if name != form.__name__ or _refers(definitions, name)
        },
    }


def _refers(definitions: dict[str, Any], name: str) -> bool:
    return f'#/$defs/{name}"' in msgspec.json.encode(definitions).decode()
