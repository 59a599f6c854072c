"""Elements of a page. Whatever is no `Markup` is text and is escaped: names and messages of a machine are anybody's."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from gpudoctor.lazy import lazy_re
from gpudoctor.render.words import safe


class Markup(str):
    """Text that is markup already. Only this module and the frame of the page make any."""

    __slots__ = ()


Part: TypeAlias = "str | int | Iterable[Part] | None"
"""What stands in an element: text, `Markup`, or several of them; None is nothing."""
LONGEST = 10_000
"""Characters of one text: nobody reads more of a name or a message."""
CODE = lazy_re(r"`([^`\n]+)`")
VOID = frozenset(("br", "hr", "meta", "rect", "line", "circle", "path", "use"))
"""Elements that hold nothing; those of a picture too, which are closed in themselves."""


def text(part: Part) -> Markup:
    """Text that a browser shows as it is, every character of it as itself."""
    if isinstance(part, Markup):
        return part
    if part is None:
        return Markup("")
    if isinstance(part, (str, int)):
        return Markup(escape(safe(_bounded(str(part)), lines=True), quote=True))
    return Markup("".join(map(text, part)))


def _bounded(words: str) -> str:
    if len(words) <= LONGEST:
        return words
    return f"{words[:LONGEST]} ... ({len(words) - LONGEST} more characters, which the data inside has)"


def tag(element: str, /, *content: Part, **attributes: str | int | float | bool | None) -> Markup:
    """An element. `class_` is `class`, `data_x` is `data-x`; True gives one without a value, None and False none."""
    words = [element]
    for key, value in attributes.items():
        spelled = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(spelled)
        elif value is not None and value is not False:
            words.append(f'{spelled}="{text(f"{value:g}" if isinstance(value, float) else value)}"')
    if element in VOID and not content:
        return Markup(f"<{' '.join(words)}/>")
    return Markup(f"<{' '.join(words)}>{text(content)}</{element}>")


def prose(words: str) -> list[Part]:
    """Sentences of ours, in which `words` between backticks are code."""
    return [tag("code", part) if number % 2 else part for number, part in enumerate(CODE.split(words))]


def table(titles: Iterable[Part], rows: Iterable[Markup], *, label: str) -> Markup:
    """A table that scrolls by itself where it is too wide, also by keyboard."""
    head = tag("thead", tag("tr", [tag("th", title, scope="col") for title in titles]))
    inside = tag("table", head, tag("tbody", rows))
    return tag("div", inside, class_="wide", tabindex="0", role="region", aria_label=label)


def folded(summary: Part, *content: Part, open_: bool = False) -> Markup:
    """What is shown when somebody asks for it."""
    return tag("details", tag("summary", summary), *content, open=open_)


def section(title: Part, *content: Part) -> Markup:
    return tag("section", tag("h2", title), *content)
