"""A Helm template -> the manifest that it becomes by its values.yaml, of the same length, so that places stay.

`{{ .Values.gpus }}` becomes the value; an expression of something else becomes a name; lines that are nothing but
`{{- if ... }}` become blank. What is longer than its expression stays a name.
"""

import re
from collections.abc import Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import TextSection

LINE = lazy_re(r"^[ \t]*\{\{-?[^{}]*\}\}[ \t]*$", re.MULTILINE)
EXPRESSION = lazy_re(r"\{\{-?\s*(.*?)\s*-?\}\}")
VALUE = lazy_re(r"\.Values\.([\w.]+)(?:\s*\|\s*(?:default\s+(\S+)|quote|int|toString))*", re.ASCII)
TEMPLATE = lazy_re(r"\{\{-?\s*(?:\.Values|\.Release|include|template|if|range|with|end)\b")


def is_template(text: str) -> bool:
    return TEMPLATE.search(text) is not None and "apiVersion" in text


def values_of(sections: Sequence[TextSection]) -> dict[str, str]:
    """What the chart's values.yaml says, by dotted names."""
    file = next((section for section in sections if section.name.rpartition("/")[2] == "values.yaml"), None)
    documents = read_manifests(file.text) if file is not None else ()
    return {".".join(value.path): value.value for document in documents for value in document.values}


def filled(text: str, values: dict[str, str]) -> str:
    """The template with its values."""

    def written(match: re.Match[str]) -> str:
        asked = VALUE.fullmatch(match[1])
        told = values.get(asked[1], (asked[2] or "").strip("\"'")) if asked is not None else ""
        if asked is not None and "quote" in match[1] and told:
            told = f'"{told}"'
        length = len(match[0])
        return (told if told and len(told) <= length else "x").ljust(length)

    return EXPRESSION.sub(written, LINE.sub(_line, text))


def _line(match: re.Match[str]) -> str:
    """An expression that has its line for itself: a value stays, control becomes blank."""
    expression = EXPRESSION.search(match[0])
    is_value = expression is not None and VALUE.fullmatch(expression[1]) is not None
    return match[0] if is_value else " " * len(match[0])
