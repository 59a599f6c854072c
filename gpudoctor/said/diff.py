"""Of `diff`: an id for each kind of change that no check finds."""

from gpudoctor.command import command
from gpudoctor.said.one import Meaning, said_by

_said = said_by("diff")
_SEEN: dict[str, tuple[str, str]] = {
    "gone": ("Something that the first capture has is not in the second.", "What counts on it fails, or does without."),
    "new": (
        "Something is in the second capture only.",
        "Nothing is lost by it; where something broke, look there too.",
    ),
    "unread": ("A GPU told who it is, and tells it no more.", "It does not answer: work on it fails or hangs."),
    "worse": ("Something is slower, fewer, or counts more errors.", "What ran before runs slower now, or less safely."),
    "better": ("Something is faster, more, or counts fewer errors.", "Nothing is lost by it."),
    "downgrade": ("A version is older than in the first capture.", "What needs the newer one may fail."),
    "upgrade": ("A version is newer than in the first capture.", "Where something broke since then, look here."),
    "changed": ("A value is another one, and neither is the better.", "Where something broke since then, look here."),
    "finding": (
        "A check finds in the second capture what it does not in the first.",
        "The check's own id explains it.",
    ),
    "mended": ("A check finds in the first capture what it does not in the second.", "It is gone, or not seen now."),
}
DIFF: dict[str, Meaning] = {
    f"changed-{kind}": _said(
        seen,
        meaning,
        "See what the checks say of the later capture, and whether somebody changed the machine on purpose.",
        command("gpudoctor check"),
    )
    for kind, (seen, meaning) in _SEEN.items()
}
