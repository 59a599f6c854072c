"""Report -> markdown for an issue, private names hidden."""

import re

from gpudoctor import __version__
from gpudoctor.redact import Pseudonyms
from gpudoctor.render import words
from gpudoctor.render.terminal import plain
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot


def markdown(report: Report, snapshot: Snapshot) -> str:
    """A folded section with the whole report; nothing private in it."""
    names = Pseudonyms(snapshot)
    # Before it is rendered: afterwards a line break may run through a name.
    text = plain(names.structure(report), names.structure(snapshot))
    # A fence longer than any run of backticks inside cannot be closed by the content.
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    summary = f"gpudoctor {__version__}: {words.verdict(report)}"
    return f"<details><summary>{summary}</summary>\n\n{fence}text\n{text}\n{fence}\n\n</details>"
