"""The frame of a page: what a browser must know, the verdict on top, the data at the end.

Nothing is loaded and nothing is sent: the policy in the page lets a browser use our one script and one style, known
by their hashes, and nothing else, whatever a name of a machine may try.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from gpudoctor import __version__, embedded
from gpudoctor.render.html.markup import Markup, Part, tag, text
from gpudoctor.render.words import LEFT_OUT

Mood = Literal["good", "warn", "bad", "unknown"]
MARKS: dict[Mood, str] = {"good": "✓", "warn": "!", "bad": "✕", "unknown": "?"}
"""Beside the colour: who sees no colours, or has printed it, reads them."""
MOODS: dict[str, Mood] = {
    "ready": "good",
    "nothing wrong": "good",
    "not ready": "bad",
    "fault": "bad",
    "cannot tell": "unknown",
    "interrupted": "unknown",
}
"""Of a verdict of the JSON form."""


@cache
def _own(name: str) -> Markup:
    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def policy() -> str:
    """What the page may do: its own style and script, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(_own('page.css'))}; script-src {_hash(_own('page.js'))}; "
        "base-uri 'none'; form-action 'none'"
    )


class Sheet(NamedTuple):
    """What a command shows, before its frame; the sheet of one may be a part of another's page."""

    command: str
    verdict: str
    mood: Mood
    about: str
    first: Part
    """What to do first."""
    body: Part
    data: Mapping[str, bytes]
    """JSON by its name in the page."""
    saved: bool = False
    """It comes from a file, whose lines to paste are left out."""


def page(sheet: Sheet, *, hidden: bool = False) -> bytes:
    """The whole file. `hidden`: by pseudonyms."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{sheet.verdict} - gpudoctor {sheet.command}"),
        tag("style", _own("page.css")),
    )
    top = tag(
        "header",
        tag("p", f"gpudoctor {sheet.command}", tag("span", sheet.about, class_="about"), class_="command"),
        tag("h1", mark(sheet.mood), tag("span", sheet.verdict), class_=sheet.mood),
    )
    names = "Names, addresses and serial numbers are pseudonyms. " if hidden else ""
    end = tag(
        "footer",
        tag("p", f"{names}Written by gpudoctor {__version__}. This file is whole: it loads nothing and sends nothing."),
        tag("p", "Its data is inside; ", tag("code", f"gpudoctor {sheet.command} --from FILE.html"), " reads it back."),
    )
    said = tag("p", id="said", role="status", aria_live="polite", class_="unseen")
    left_out = tag("p", LEFT_OUT, class_="soft") if sheet.saved else None
    inside = [top, tag("main", sheet.first, left_out, sheet.body), end, said]
    scripts = [Markup(embedded.as_script(name, raw)) for name, raw in sheet.data.items()]
    whole = tag("html", head, tag("body", inside, scripts, tag("script", _own("page.js"))), lang="en")
    return f"<!doctype html>\n{text(whole)}\n".encode()


def mark(mood: Mood) -> Markup:
    return tag("span", MARKS[mood], class_="mark", aria_hidden="true")
