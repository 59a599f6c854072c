"""Logs -> why the job failed or stands: the one function."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from gpudoctor.explain.conclude import conclude
from gpudoctor.explain.lines import NotALog, find_logs, open_log
from gpudoctor.explain.order import put_together
from gpudoctor.explain.report import Explanation
from gpudoctor.explain.scan import EXTRA, Scan, scan
from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import TABLE
from gpudoctor.symptoms.match import Matcher

STANDARD_INPUT = "-"


class Interrupted(Exception):
    """Ctrl-C while reading; carries what was found until then."""

    def __init__(self, explanation: Explanation) -> None:
        super().__init__("interrupted")
        self.explanation = explanation


def explain(paths: Sequence[str], *, stdin: BinaryIO, table: tuple[Symptom, ...] = TABLE) -> Explanation:
    """Read logs ("-" is `stdin`; a folder: the logs in it) and say what they show.

    Never raises for what a log holds, nor for one that cannot be read (that is said in `unreadable`). Raises
    `Interrupted` after Ctrl-C.
    """
    files, unreadable = find_logs(list(paths))
    matcher = Matcher(table, EXTRA)
    scans: list[Scan] = []
    interrupted = False
    for file in files:
        try:
            found = _scanned(file, stdin, matcher)
        except NotALog as problem:
            unreadable[file] = str(problem)
            continue
        if found.reason:
            unreadable[file] = found.reason
        if not found.reason or found.lines:
            scans.append(found)
        if found.interrupted:
            interrupted = True
            break
    concluded = conclude(facts := put_together(scans))
    answer = Explanation(
        causes=concluded.causes,
        unknown=concluded.unknown,
        consequences=concluded.consequences,
        story=concluded.story,
        files=tuple(found.file for found in scans),
        lines=sum(found.lines for found in scans),
        bytes=sum(found.bytes for found in scans),
        ranks=tuple(sorted(facts.ranks)),
        unreadable=unreadable,
    )
    if interrupted:
        raise Interrupted(answer)
    return answer


def _scanned(file: str, stdin: BinaryIO, matcher: Matcher) -> Scan:
    matcher.begin()
    if file == STANDARD_INPUT:
        return scan(stdin, "standard input", matcher, modified=time.time())
    try:
        modified: float | None = Path(file).stat().st_mtime
    except (OSError, ValueError):
        modified = None
    with open_log(file) as raw:
        return scan(raw, file, matcher, modified=modified)
