"""A text with `#@` lines -> its parts: what belongs on which node, and the files that go with it."""

from gpudoctor.lint.model import Section


def split(text: str) -> tuple[Section, ...]:
    """The sections in order; a text without `#@` lines is one section for every node."""
    return (Section("every", text=text),)
