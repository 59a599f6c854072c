"""In a child process: one file of a user's program, opened as the process would, and what stands around one line."""

import ast
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from gpudoctor.read import apart
from gpudoctor.read.job import inside, source
from gpudoctor.read.job.files import InsideReader
from gpudoctor.read.job.passage import Passage, passage, passage_after
from gpudoctor.read.job.source_ways import Ways, ways
from gpudoctor.read.process import THIS
from gpudoctor.snapshot.evidence import Frame, SourceContext

MOST_FOLDERS = 16
"""Of packages in each other."""
PROJECT = frozenset(("pyproject.toml", "setup.py", "setup.cfg"))


class SourceRequest(Struct):
    pid: int
    frame: Frame
    main: str = ""
    """The program's own file."""
    until: float = 0.0
    """Not of a file that has changed after this (time.time()); 0: of any."""
    stack: tuple[Frame, ...] = ()
    said: str = ""
    further: int = 0
    hooked: bool = False
    last: tuple[Frame, ...] = ()
    """For `passage`, or with `last` for `passage_after`: what is asked then, and not for the context of a line."""
    ways: tuple[str, ...] | None = None
    """Every way by which the file comes to a collective is asked for: lines of which it writes one."""


class SourceAnswer(Struct):
    context: SourceContext | None = None
    passage: Passage | None = None
    ways: Ways | None = None


def answer(request: bytes) -> bytes:
    """Raises `ValueError` with the reason where the file is too much for a parser."""
    asked = msgspec.json.decode(request, type=SourceRequest)
    try:
        if asked.said or asked.last:
            between = _passage(asked)
            return msgspec.json.encode(SourceAnswer(passage=between))
        if asked.ways is not None:
            return msgspec.json.encode(SourceAnswer(ways=_ways(asked)))
        if asked.frame.file == source.COMMAND:
            return msgspec.json.encode(SourceAnswer(source.context(asked.frame, lambda _: command(asked.pid))))
        context = source.context(asked.frame, InsideReader(asked.pid, asked.until))
        if context is not None and is_installed(asked.pid, asked.frame.file, asked.main):
            context = structs.replace(context, installed=True)
        return msgspec.json.encode(SourceAnswer(context))
    except (MemoryError, RecursionError):  # Python's parser says the one for the other
        raise ValueError("it is nested too deeply, or parsing it takes more than 512 MiB of memory") from None


def command(pid: int) -> bytes:
    """The program that a process was given as `python -c`; nothing where it was given another one."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:]
    for before, word, after in zip([b"", *words], words, words[1:], strict=False):
        if word.startswith(b"-") and not word.startswith(b"--") and word.endswith(b"c"):
            return after
        if not word.startswith(b"-") and before not in (b"-X", b"-W"):
            break
    return b""


def _passage(asked: SourceRequest) -> Passage | None:
    try:
        raw = InsideReader(asked.pid, asked.until)(asked.frame.file)
        tree = ast.parse(raw) if 0 < len(raw) <= source.MOST_PARSED else None
    except (OSError, ValueError, SyntaxError):
        return None
    if tree is not None and asked.last:
        return passage_after(tree, asked.stack, asked.last)
    if tree is None:
        return None
    return passage(tree, asked.stack, asked.said, asked.further, hooked=asked.hooked)


def _ways(asked: SourceRequest) -> Ways | None:
    try:
        return ways(asked.frame.file, asked.ways or (), InsideReader(asked.pid, asked.until))
    except (OSError, ValueError, SyntaxError):
        return None


def is_installed(pid: int, file: str, main: str) -> bool:
    """Whether a file belongs to a package that is not the program's: beside it lie what pip notes of packages, as in
    `pip install --target`; or it is of a project (a clone) that the program's own file is outside of."""
    folder = file.rpartition("/")[0]
    beside: list[str] = []
    try:
        for _ in range(MOST_FOLDERS):
            beside = inside.names(pid, folder)
            if "__init__.py" not in beside:
                break
            folder = folder.rpartition("/")[0]
        if folder == file.rpartition("/")[0]:
            return False  # a script
        if any(name.endswith(".dist-info") for name in beside):
            return True
        if folder.rpartition("/")[2] in ("src", "lib", "python"):
            folder = folder.rpartition("/")[0]
            beside = inside.names(pid, folder)
    except OSError:
        return False
    if main and not main.startswith(("/", "<")):
        main = f"{THIS.link_or_empty(f'/proc/{pid}/cwd')}/{main}"
    return main.startswith("/") and not main.startswith(f"{folder}/") and not PROJECT.isdisjoint(beside)


main = apart.serving(answer)
