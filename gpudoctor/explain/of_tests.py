"""pytest's report of tests that failed: what a test printed and logged is quoted there, and is no end of the program.

Forms from pytest's source (_pytest/terminal.py, reports.py): titles between signs as wide as the terminal, "Captured
log call" before what was quoted, and the last line that counts.
"""

from collections.abc import Iterator, Sequence

from gpudoctor.lazy import lazy_re

COUNTED = lazy_re(r"^=+ (?:\d{1,7} \w{1,14}, ){0,6}\d{1,7} \w{1,14} in \d[\d.]{0,9}s")
CAPTURED = lazy_re(r"^-{3,} Captured (?:stdout|stderr|log) (?:setup|call|teardown) -{3,}\s*$")
TITLE = lazy_re(r"^(?:={3,}|_{3,}|-{3,}) \S[^\n]{0,300} (?:={3,}|_{3,}|-{3,})\s*$")


LISTS = lazy_re(r"^(?:_{3,} \S[^\n]{0,300} _{3,}|(?:_ ){9,}_?)\s*$")
"""What stands above the source of a test, or of a function that it called (_pytest/_code/code.py)."""
RAISED = lazy_re(r"^(?:E {3}|={3,} |-{3,} |\S[^\n]{0,300}:\d{1,7}: ?)")
"""What ends such a listing: the exception, another part, or the place of the frame."""


def listed(end: Sequence[tuple[int, str]]) -> Iterator[int]:
    """Numbers of the lines that are source and arguments of functions, which nobody has written while it ran."""
    inside = False
    for number, text in end:
        if LISTS.match(text):
            inside = True
        elif RAISED.match(text):
            inside = False
        elif inside:
            yield number


def quoted(end: Sequence[tuple[int, str]]) -> Iterator[int]:
    """Numbers of the lines that tests wrote, where pytest has told of them and counted them at the log's end."""
    counted = max((number for number, text in end if COUNTED.match(text)), default=0)
    inside = False
    for number, text in end:
        if TITLE.match(text):
            inside = CAPTURED.match(text) is not None
        elif inside and number < counted:
            yield number
