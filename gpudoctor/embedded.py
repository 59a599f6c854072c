"""JSON inside a page that --html has written: how it gets there, and how --from finds it again.

A browser reads the page as a text: what stands in the JSON must neither end its element nor begin a comment. In JSON
the characters that could do that only stand in strings, where they have another spelling.
"""

import re

import msgspec

ANSWER = "gpudoctor-answer"
"""The answer, as --json prints it."""
CAPTURE = "gpudoctor-capture"
"""The machine, as `gpudoctor capture` writes it: it tells more than the answer, and is read first."""
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<!doctype html>", re.IGNORECASE)
_UNSAFE = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
_UNSAFE_LETTER = re.compile("[<>&\u2028\u2029]")


def as_script(name: str, raw: bytes) -> str:
    """An element of a page with this JSON in it, which no browser runs."""
    text = msgspec.json.format(raw, indent=-1).decode()
    return f"{_start(name)}{_UNSAFE_LETTER.sub(lambda match: _UNSAFE[match[0]], text)}</script>"


def json_in(raw: bytes) -> bytes:
    """The JSON in a page's bytes; any other bytes are what they are.

    The first element of the name counts: whatever else a page shows has no `<` of its own.
    """
    if not _PAGE.match(raw):
        return raw
    for name in (CAPTURE, ANSWER):
        _, marker, rest = raw.partition(_start(name).encode())
        if marker:
            return rest.partition(b"</script>")[0]
    return raw


def _start(name: str) -> str:
    return f'<script type="application/json" id="{name}">'
