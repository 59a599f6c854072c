"""Several runs in one log, one behind the other: told apart, so that the last one is answered.

    sbatch --open-mode=append, an -o without a job's number     the scheduler's end line, then the script's first lines
    bsub -o and -e                                              LSF's report behind each job's output
    nohup COMMAND >> LOG                                        "nohup: ignoring input" once more

A run begins where the log's own first lines come again, or a line that its starter writes once, and something failed
before. Lines that came more than once before anything had failed tell nothing: several ranks write them. Nor does the
first such line behind the mark of a node or rank: one that starts late writes it while another has failed already.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpudoctor.explain.lines import Block
from gpudoctor.explain.writers import unprefixed, writer
from gpudoctor.lazy import lazy_re

HEAD_LINES = 40
"""First lines of a log by which its next start is known."""
MOST_PIECES = 6
SHORTEST = 12
"""Characters of a piece of a line without digits, and half of it letters, that come again by no chance."""
NEAR = 40
"""Lines within which two of the first lines come again at a start."""
MOST_SIGNS = 4_000
DIGITS = lazy_re(rb"[\d\t ]*\d[\d\t ]*")
LETTER = lazy_re(rb"[A-Za-z]")
FAILED = b"Traceback "
NO_FIRST = lazy_re(rb'Traceback|File "|^\s|Error|Exception|\d%\||^\W*$')
"""Not the first lines of an error, which comes again without a start."""
WARNING = lazy_re(rb"[Ww]arn")
"""Nor a warning's, which each process writes: the log's very first line may be one, if it comes again and again."""
ONCE = (
    b"nohup: ignoring input",
    b"Setting OMP_NUM_THREADS environment variable for each process",
    b":main] cmd = ",
    b"The following values were not passed to `accelerate launch`",
    b"Cannot find primary config ",
)
"""What a starter writes at its own start, once: nohup; torchrun (torch/distributed/run.py), not at its restarts of
workers; deepspeed (launcher/runner.py); accelerate (commands/launch.py); Hydra, before anything of the program."""
USAGE = b"usage: "
"""argparse's, of a program that ends at once: each of several ranks would say the same."""
REPORTED = b"The output (if any) is above this job summary."
"""LSF's, near the end of the report that it appends to a job's output (-o)."""
ENDED_JOB = lazy_re(rb"\*\*\* (?:JOB|STEP) (?P<job>\d{1,12})[^\n]{0,80}CANCELLED AT")
ENDED_MARK = b" CANCELLED AT "
MOST_AFTER_AN_END = 2_000
"""Lines that a job's processes write behind it, before they are killed (our rule of thumb)."""
RAN = lazy_re(rb'^ {2}File "(?P<file>[^"\n]{1,300})", line \d{1,9}, in <module>')
RAN_MARK = b", in <module>"
REFUSED = lazy_re(rb'^ {2}File "(?P<file>[^"\n]{1,300})", line \d{1,9}$')
"""CPython's place of what it could not compile; all other frames name their function."""
REFUSED_MARKS = (b"SyntaxError", b"IndentationError", b"TabError")
MOST_ABOVE = 12
"""Lines above such an error in which its place stands: several ranks may write at once."""


class Runs:
    """Looks for starts while a log is read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] | None = None
        self._first = b""
        self._came: dict[bytes, int] = {}
        """How often each came before anything had failed."""
        self._hits: list[tuple[int, bytes]] = []
        self._written: set[tuple[bytes, str, int | None, int | None]] = set()
        """Pieces with the marks of the node or rank that wrote them."""
        self._jobs: list[tuple[int, bytes]] = []
        self._reports: list[int] = []
        self._ran: dict[bytes, int] = {}
        """File of Python -> the line that first shows it run."""
        self._refused: list[int] = []

    def read(self, block: Block, failed_at: int | None) -> None:
        """`failed_at`: the line of the first that tells of a failure, as far as the log was read."""
        text = block.text
        if self._pieces is None:
            self._pieces = _pieces(text, (failed_at or HEAD_LINES + 1) - block.first_line)
            begins = text[:16384].lstrip()
            line = begins.partition(b"\n")[0]
            fails = failed_at == block.first_line + text.count(b"\n", 0, min(len(text), 16384) - len(begins))
            if WARNING.search(line[:300]) and not fails:
                self._first = _piece(line)
        if REPORTED in text:
            self._reports += (number for number, _ in _lines_with(text, REPORTED, block.first_line))
        if ENDED_MARK in text:
            self._jobs += (
                (number, ended["job"])
                for number, line in _lines_with(text, ENDED_MARK, block.first_line)
                if (ended := ENDED_JOB.search(line))
            )
        self._edited(block)
        for piece in {*self._pieces, *ONCE, self._first}:
            if not piece or piece not in text:
                continue
            for number, line in _lines_with(text, piece, block.first_line):
                again = self._by_the_same(piece, line)
                if failed_at is None or number <= failed_at:
                    self._came[piece] = self._came.get(piece, 0) + 1
                elif again and len(self._hits) < MOST_SIGNS:
                    self._hits.append((number, piece))

    def _by_the_same(self, piece: bytes, line: bytes) -> bool:
        """Whether the line bears no mark of a node or rank, or one whose writer wrote the piece before."""
        if len(self._written) >= MOST_SIGNS:
            return True
        by = writer(line[:300].decode("utf-8", "surrogateescape"))
        mark = (piece, by.host, by.rank, by.local_rank)
        seen = mark in self._written
        self._written.add(mark)
        return seen or mark[1:] == ("", None, None)

    def _edited(self, block: Block) -> None:
        """A file that was run before and cannot be compiled now was edited in between: it is another run's."""
        text = block.text
        if RAN_MARK in text:
            for number, line in _lines_with(text, RAN_MARK, block.first_line):
                if ran := RAN.search(line):
                    self._ran.setdefault(ran["file"], number)
        if not any(mark in text for mark in REFUSED_MARKS):
            return
        lines = text.split(b"\n")
        for index, line in enumerate(lines):
            if not any(mark in line for mark in REFUSED_MARKS):
                continue
            places = [at for at in range(max(0, index - MOST_ABOVE), index) if REFUSED.search(lines[at])]
            refused = REFUSED.search(lines[places[0]]) if places else None
            if refused is None or self._ran.get(refused["file"], block.first_line + index) >= block.first_line + index:
                continue
            first = places[0]
            while first and lines[first - 1].startswith((b"  ", FAILED)):
                first -= 1
            number = block.first_line + first
            if number - max(self._refused, default=-NEAR) >= NEAR:
                self._refused.append(number)

    def begun(self) -> list[int]:
        """Lines at which a run may begin, behind the first: something failed before it. Where LSF has reported each
        job, what a job started meanwhile is its own."""
        since = self._reports[-1] if len(self._reports) > 1 else 0
        return sorted(number for number in {*self._signs(), *self._refused} if number > since)

    def ended(self, lines: int) -> list[int]:
        """Lines behind which nothing more of a run comes, as the scheduler says that ended it. `lines`: of the log."""
        of_jobs = [number + 1 for (number, one), (_, other) in pairwise(self._jobs) if one != other]
        of_jobs += [number + 1 for number, _ in self._jobs[-1:] if lines - number > MOST_AFTER_AN_END]
        return [*of_jobs, *(number + 1 for number in self._reports)]

    def _signs(self) -> Iterator[int]:
        once = [(number, piece) for number, piece in sorted(self._hits) if self._came.get(piece, 0) <= 1]
        yield from (number for number, piece in once if piece in ONCE or piece.startswith(USAGE))
        firsts = [number for number, piece in once if piece == self._first]
        yield from firsts if len(firsts) > 1 else ()
        order = {piece: place for place, piece in enumerate(self._pieces or ())}
        again = [(number, order[piece]) for number, piece in once if piece in order]
        for (number, place), (later, next_place) in pairwise(again):
            if later - number <= NEAR and place < next_place:
                yield number


def _pieces(text: bytes, most: int) -> list[bytes]:
    """Of the first lines, `most` of them, the longest pieces without digits that stand in one of them only."""
    pieces: list[bytes] = []
    for line in text[:16384].split(b"\n")[: min(most, HEAD_LINES)]:
        piece = b"" if WARNING.search(line[:300]) else _piece(line)
        if piece:
            pieces.append(piece)
    once = [piece for piece in pieces if sum(piece in other for other in pieces) == 1]
    return once[:MOST_PIECES]


def _piece(line: bytes) -> bytes:
    # behind the mark of a rank: a traceback's source is indented there
    said = unprefixed(line[:300].decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if NO_FIRST.search(said):
        return b""
    piece = max(DIGITS.split(said), key=len).strip()
    return piece if len(piece) >= SHORTEST and 2 * len(LETTER.findall(piece)) >= len(piece) else b""


def _lines_with(text: bytes, piece: bytes, first_line: int) -> Iterator[tuple[int, bytes]]:
    """Numbers and bytes of the lines that hold it."""
    at, number = 0, first_line
    while (place := text.find(piece, at)) >= 0:
        number += text.count(b"\n", at, place)
        begin = text.rfind(b"\n", 0, place) + 1
        end = text.find(b"\n", place)
        yield number, text[begin : end if end >= 0 else len(text)]
        if end < 0:
            return
        at = end


def last_of(
    begun: Sequence[int], ended: Sequence[int], failed: Sequence[int], shown: Sequence[int], lines: int
) -> list[int]:
    """Where the runs behind the first begin, of which the last tells something, or is no mere beginning.

    `begun`: lines that look like a start, which are one where something `failed` since the start before; `ended`:
    those that are; `shown`: lines that show anything."""
    kept: list[int] = []
    told, for_sure, last = sorted(failed), frozenset(ended), max(shown, default=0)
    for start in sorted({*begun, *ended}):
        since = kept[-1] if kept else 0
        if start in for_sure or bisect_left(told, since) < bisect_left(told, start):
            kept.append(start)
    while kept and lines - kept[-1] < NEAR and last < kept[-1]:
        kept.pop()
    return kept
