"""A Dockerfile -> what a container of its last stage starts, as the values of a manifest.

ENTRYPOINT and CMD in their JSON form are lists of words, which no shell reads; in their shell form they are a line that
`/bin/sh -c` reads. CMD's words come behind ENTRYPOINT's (Dockerfile reference, "Understand how CMD and ENTRYPOINT
interact").
"""

import json
import re

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Manifest, ManifestValue, Span
from gpudoctor.lint.quotes import without_documents

LOOKS = lazy_re(r"\A(?:[ \t]*(?:#[^\n]*|ARG\b[^\n]*)?\n)*[ \t]*FROM[ \t]+\S+")
STARTS = lazy_re(r"^[ \t]*(?:ENTRYPOINT|CMD|RUN)[ \t]", re.MULTILINE)
INSTRUCTION = lazy_re(
    r"^[ \t]*(FROM|ENTRYPOINT|CMD|ENV)\b[ \t]*((?:[^\\\n]|\\\r?\n|\\.)*)", re.IGNORECASE | re.MULTILINE
)
STRING = lazy_re(r'"((?:[^"\\\n]|\\.)*)"')


_SET = lazy_re(r"(?:^|(?<=\s))([A-Za-z_]\w*)=(\"[^\"$]*\"|'[^'$]*'|[^\s\\\"'$]+)(?=\s|$)")
"""NAME=value of an ENV, where no other variable stands in the value."""


def looks_like_dockerfile(text: str) -> bool:
    return LOOKS.match(text) is not None and STARTS.search(text) is not None


def read_dockerfile(text: str, start: int = 0, line: int = 1) -> Manifest:
    """The ENTRYPOINT and CMD of the last stage, and its variables. Never raises."""
    instructions: dict[str, re.Match[str]] = {}
    stages: dict[str, list[ManifestValue]] = {}
    variables: list[ManifestValue] = []
    for match in INSTRUCTION.finditer(without_documents(text)):
        name = match[1].upper()
        if name == "FROM":
            instructions = {}  # another stage; what the one before it had is not inherited from here
            image, *named = match[2].split()[::2] or [""]
            variables = list(stages.get(image.lower(), ()))
            stages |= {name.lower(): variables for name in named}
        elif name == "ENV":
            for own in _SET.finditer(match[2]):
                begin = match.start(2) + own.start()
                span = Span(start + begin, start + match.start(2) + own.end(), line + text.count("\n", 0, begin))
                place = ("env", str(len(variables) // 2))
                variables.append(ManifestValue((*place, "name"), own[1], span))
                variables.append(ManifestValue((*place, "value"), own[2].strip("\"'"), span))
        else:
            if name == "ENTRYPOINT":
                instructions.pop("CMD", None)  # an ENTRYPOINT resets the CMD of the base image
            instructions[name] = match
    values = list(variables)
    for name, key in (("ENTRYPOINT", "command"), ("CMD", "args" if "ENTRYPOINT" in instructions else "command")):
        if name not in instructions:
            continue
        body, at = instructions[name][2], instructions[name].start(2)
        words = _json_form(body)
        if words is None:
            if name == "CMD" and "ENTRYPOINT" in instructions:
                continue  # `/bin/sh -c ...` handed to the entrypoint: nothing that starts
            span = Span(start + at, start + at + len(body), line + text.count("\n", 0, at), False)
            values.append(ManifestValue((key,), body.strip(), span))
            continue
        for number, (word, first, last) in enumerate(words):
            span = Span(start + at + first, start + at + last, line + text.count("\n", 0, at + first))
            values.append(ManifestValue((key, str(number)), word, span))
    return Manifest("Dockerfile", "", tuple(values))


def _json_form(body: str) -> list[tuple[str, int, int]] | None:
    """The words and where they stand; None in the shell form."""
    if not (body.lstrip().startswith("[") and body.rstrip().endswith("]")):
        return None
    words = []
    for match in STRING.finditer(body):
        try:
            words.append((str(json.loads(match[0])), match.start(), match.end()))
        except ValueError:
            return None
    return words
