"""What a page of --html is held against: as a browser's parser sees it, without a browser."""

import base64
import hashlib
from html.parser import HTMLParser

from gpudoctor.render.html.markup import VOID

KNOWN = """
html head meta title style body header main footer section article div p h1 h2 h3 span strong code pre button ul ol li
table thead tbody tr th td details summary figure script svg g rect text line circle path br
"""


class Page(HTMLParser):
    """Elements of a page, and all that is wrong with it."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.elements: list[str] = []
        self.shown = ""
        """All text that is no script and no style."""
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.policy = ""
        self.names: list[str] = []
        self._open: list[str] = []
        self.feed(raw.decode())
        self.close()
        self.wrong += [f"<{name}> is not closed" for name in self._open]
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'"
            for each in (self.inside["style"][0], self.inside["script"][-1])
        ]
        self.wrong += [f"the policy lacks {each}" for each in hashes if each not in self.policy]
        self.wrong += [f"id {name} twice" for name in {*self.names} if self.names.count(name) > 1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begun(tag, attrs)
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begun(tag, attrs)
        if tag not in VOID:
            self.wrong.append(f"<{tag}/>")

    def _begun(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in KNOWN.split():
            self.wrong.append(f"<{tag}>")
        given = dict(attrs)
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "src", "href", "srcset", "action", "xlink:href"):
                self.wrong.append(f"{tag} {name}={value}")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given.get("content") or ""
        self.names += [given["id"] or ""] if "id" in given else []

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> ends nothing")

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data[:40]}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in self.inside:
            self.inside[self._open[-1]].append(data)
        else:
            self.shown += data
