"""The `env:` list of a container in a Kubernetes manifest."""

from collections.abc import Iterator

from gpudoctor.emit.comments import about, footer, header
from gpudoctor.knowledge.suggest.advice import Advice

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def kubernetes(advice: Advice) -> str:
    """A YAML mapping with the one key `env`."""
    usage = "For a container of a pod; ask inside such a pod, for the host's interfaces have other names."
    head, foot = "\n".join(header(advice, usage)), "\n".join(footer(advice))
    entries = list(_entries(advice))
    body = "\n".join(["env:", *entries]) if entries else "env: []"
    return "\n".join(part for part in (head, body, foot) if part) + "\n"


def _entries(advice: Advice) -> Iterator[str]:
    for suggestion in advice.suggestions:
        yield from (f"  {line}" for line in about(suggestion))
        yield f"  - name: {suggestion.name}"
        # The kubelet expands $(NAME) in values and reads $$ as one dollar sign.
        yield f"    value: {scalar(suggestion.value.replace('$', '$$'))}"


def scalar(value: str) -> str:
    """A double-quoted YAML scalar: always a string, whatever it looks like ("1", "no", "=eth0")."""
    return '"' + "".join(_escaped(character) for character in value) + '"'


def _escaped(character: str) -> str:
    """YAML allows printable characters as they stand; what Python calls not printable includes all others."""
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
