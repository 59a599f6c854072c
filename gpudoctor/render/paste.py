"""Report -> markdown for an issue, private names hidden."""

import io
import re

from gpudoctor import __version__
from gpudoctor.hang.report import HangReport
from gpudoctor.redact import Pseudonyms
from gpudoctor.render import words
from gpudoctor.render.hang import STATES, show_hang
from gpudoctor.render.prose import console
from gpudoctor.render.terminal import PLAIN_WIDTH, plain
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot
from gpudoctor.snapshot.evidence import Evidence


def markdown(report: Report, snapshot: Snapshot) -> str:
    """A folded section with the whole report; nothing private in it."""
    names = Pseudonyms(snapshot)
    # Before it is rendered: afterwards a line break may run through a name.
    text = plain(names.structure(report), names.structure(snapshot))
    return _folded(words.verdict(report), text)


def hang_markdown(report: HangReport, evidence: Evidence) -> str:
    """As `markdown`, for what a stuck job's examination concludes."""
    names = Pseudonyms(evidence)
    page = io.StringIO()
    show_hang(names.structure(report), console(no_color=True, file=page, width=PLAIN_WIDTH))
    states = ", ".join(STATES[job.state] for job in report.jobs) or "no job"
    return _folded(f"hang: {states}", page.getvalue().rstrip())


def _folded(summary: str, text: str) -> str:
    # A fence longer than any run of backticks inside cannot be closed by the content.
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    head = f"gpudoctor {__version__}: {summary}"
    return f"<details><summary>{head}</summary>\n\n{fence}text\n{text}\n{fence}\n\n</details>"
