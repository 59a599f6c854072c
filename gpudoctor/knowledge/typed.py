"""A text with the signs that programs write, in place of those that mails, chats and word processors make of them."""

from gpudoctor.lazy import lazy_re

ENTITIES = {
    b"&gt;": b">",
    b"&lt;": b"<",
    b"&quot;": b'"',
    b"&#x27;": b"'",
    b"&#39;": b"'",
    b"&nbsp;": b" ",
    b"&amp;": b"&",
}
ENTITY = lazy_re(b"|".join(ENTITIES))
SIGNS = {
    "\u2018".encode(): b"'",
    "\u2019".encode(): b"'",
    "\u201c".encode(): b'"',
    "\u201d".encode(): b'"',
    "\u00a0".encode(): b" ",
    "\u202f".encode(): b" ",
    "\u2007".encode(): b" ",
    "\u200b".encode(): b"",
}
"""What stands in the place of quotes and blanks."""
BEGINNINGS = (b"\xe2\x80", b"\xc2\xa0")
"""With one of these each sign begins: a long text is looked through for them first."""


def as_typed(text: bytes) -> bytes:
    """The UTF-8 text, as it was typed or printed."""
    if b"&" in text:
        text = ENTITY.sub(lambda found: ENTITIES[found[0]], text)
    if any(beginning in text for beginning in BEGINNINGS):
        for sign, plainly in SIGNS.items():
            text = text.replace(sign, plainly)
    return text
