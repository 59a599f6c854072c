"""Of `diff`, an id for each kind of change that no check finds; and of `check --baseline`."""

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
_compared = said_by("check --baseline")
BASELINE: dict[str, Meaning] = {
    "gpu-gone-since-baseline": _compared(
        "A GPU that an earlier capture has is not there, or tells no more who it is.",
        "A job that counts on it does not start, or waits for its rank until it times out.",
        "See whether the bus shows it and what the driver says.",
        command("gpudoctor check driver gpu"),
    ),
    "worse-than-baseline": _compared(
        "Something is slower, older or counts more errors than in an earlier capture.",
        "What ran on this machine then runs slower now, or no longer.",
        "The finding of the part itself has its fix; `gpudoctor diff` shows all that differs.",
    ),
    "changed-since-baseline": _compared(
        "Something else is not as in an earlier capture.",
        "It is no fault by itself; where something broke since then, look here first.",
        "`gpudoctor diff` shows all that differs, most telling first.",
    ),
    "baseline-of-another-machine": _compared(
        "The earlier capture is of another machine.",
        "What differs need not have changed: the two may never have been alike.",
        "Keep a capture of this machine.",
        command("gpudoctor capture --output {:name}", "good.json"),
    ),
}
