"""Files that are no text, told by their first bytes: one table for all commands that want a text."""

KINDS = (
    (0, b"PK\x03\x04", "a zip archive; unpack it first: unzip FILE"),
    (0, b"\xfd7zXZ", "compressed by xz; unpack it first: unxz FILE"),
    (0, b"(\xb5/\xfd", "compressed by zstd; unpack it first: unzstd FILE"),
    (0, b"BZh", "compressed by bzip2; unpack it first: bunzip2 FILE"),
    (0, b"\x89PNG", "a picture (PNG); the text itself is needed"),
    (0, b"\xff\xd8\xff", "a picture (JPEG); the text itself is needed"),
    (0, b"RIFF", "a picture or sound (RIFF); the text itself is needed"),
    (0, b"GIF8", "a picture (GIF); the text itself is needed"),
    (0, b"%PDF", "a PDF; the text itself is needed"),
    (0, b"\x7fELF", "a program"),
    (257, b"ustar", "a tar archive; unpack it first: tar xf FILE"),
)
"""Where in a file, what stands there, and what the file is, with what to do."""


def kind_of(head: bytes) -> str:
    """What a file is that is no text, of its first 512 bytes or more; empty where they do not tell."""
    return next((what for at, magic, what in KINDS if head.startswith(magic, at)), "")


def begins_as_tar(head: bytes) -> bool:
    return head.startswith(b"ustar", 257)
