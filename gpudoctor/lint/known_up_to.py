"""What a table of a package's releases does not know: refused, or of a release that is newer than the table.

A table ends where it was read. A rule that holds an argument, option, name or key against one makes its finding as if
the table were all, and hands it through `held_against`: it stays what it is where the installed release is within the
table, or where the word is known to be wrong in any (a misspelt one, one of another program, one that was taken away).
Elsewhere it is a warning that says how far the table goes.
"""

import re
from collections.abc import Iterable

from msgspec import Struct, structs

from gpudoctor.knowledge import misspelt
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding


class KnownUpTo(Struct, frozen=True):
    package: str
    """As --facts names it."""
    release: str
    """The newest that was read."""

    def holds(self, version: tuple[int, ...] | None) -> bool:
        """Whether the table speaks of that release. Small releases bring no arguments."""
        return version is not None and version[:2] <= tuple(map(int, re.findall(r"\d+", self.release)))[:2]

    def __str__(self) -> str:
        return f"{self.package} {self.release}"


def is_misspelt(word: str, near: str) -> bool:
    """Whether `near` is what was meant by a slip of the finger, and not only a name of the same family: releases bring
    `max_length` beside `max_seq_length`."""
    return bool(near) and misspelt.nearest(word, (near,)) == near


def held_against(job: LintJob, tables: Iterable[KnownUpTo], finding: LintFinding, *, sure: bool = False) -> LintFinding:
    """`sure`: it is wrong in any release."""
    passed = [each for each in tables if not each.holds(job.facts.version(each.package))]
    if sure or not passed:
        return finding
    ends = " and ".join(map(str, passed))
    return structs.replace(
        finding,
        severity="warning",
        summary=f"{finding.summary} (not known up to {ends}; newer ones may have it)",
        fix=f"With {ends} or older: {finding.fix[:1].lower()}{finding.fix[1:]}",
        edits=(),
    )
