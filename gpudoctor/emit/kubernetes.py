"""YAML for Kubernetes and the like; of `gpudoctor env`, the `env:` list of a container in a manifest."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpudoctor.emit.comments import about, comment, footer, header
from gpudoctor.knowledge.suggest.advice import Advice

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def kubernetes(advice: Advice) -> str:
    """A YAML mapping with the one key `env`."""
    usage = "For a container of a pod; ask inside such a pod, for the host's interfaces have other names."
    head, foot = "\n".join(header(advice, usage)), "\n".join(footer(advice))
    entries = [variable(suggestion.name, suggestion.value, about(suggestion)) for suggestion in advice.suggestions]
    body = "\n".join(yaml({"env": entries or "[]"}))
    return "\n".join(part for part in (head, body, foot) if part) + "\n"


def variable(name: str, value: str, comments: Iterable[str] = ()) -> dict[str, Any]:
    """One of `env:`, under the lines of its comment."""
    return {"#": tuple(comments), "name": name, "value": word(value)}


def yaml(node: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a mapping. Texts stand as they are given (`scalar`, `word` quote them); a key that begins with #
    holds a comment: a text, or its lines."""
    for key, value in node.items():
        if key.startswith("#"):
            yield from comment(value) if isinstance(value, str) else value
        elif isinstance(value, Mapping):
            yield f"{key}:"
            yield from (f"  {line}" for line in yaml(value))
        elif isinstance(value, list):
            yield f"{key}:"
            for each in value:
                dash = "- "
                for line in yaml(each) if isinstance(each, Mapping) else (str(each),):
                    yield f"  {line}" if line.startswith("#") and dash == "- " else f"  {dash}{line}"
                    dash = dash if line.startswith("#") else "  "
        else:
            yield f"{key}: {value}"


def word(value: str) -> str:
    """A word of a command, or a variable's value: the kubelet expands $(NAME) there and reads $$ as one dollar sign."""
    return scalar(value.replace("$", "$$"))


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
