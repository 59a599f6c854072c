"""What a start names and what lies beside it: read too, so that one file need not be named after the other.

Only regular files in the folder of the start, or below it; no link leads out of it, and a FIFO or a device is passed
over. `--no-follow` leaves them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import structs

from gpudoctor import cost
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.asked import command_text
from gpudoctor.lint.given import BESIDE, SCRIPTS, read_inside
from gpudoctor.lint.linking import linked, placed
from gpudoctor.lint.model import LinkedProgram
from gpudoctor.lint.python_text import LONGEST_PARSED
from gpudoctor.lint.read import HOSTFILE_NAME
from gpudoctor.lint.sections import MARK
from gpudoctor.lint.starts import COMMAND_LINE, MOST_BESIDE, SourceFile, StartFiles, can_name, entered, paths_in, starts

COMPOSE = lazy_re(r"\Aservices:|\nservices:[ \t]*\r?\n")
"""compose reads the .env beside its file."""
NOTHING_OPENED: Mapping[str, str] = {}
MOST_WORDS = 20_000
MOST_CHARACTERS = 4 << 20
"""Of all files together that are read so."""


def with_beside(main: SourceFile) -> StartFiles:
    """The start with the files that it names, and that those name, and with what its programs import."""
    return with_modules(named_by(main))


def named_by(main: SourceFile) -> StartFiles:
    """The start with the files that it names, and that those name."""
    if not main.file or not can_name(main) or MARK.search(main.text):
        return StartFiles(main)
    folder = Path(main.file).parent
    root = os.path.realpath(folder)
    beside: dict[str, SourceFile] = {}
    waiting, size = [main], 0
    while waiting:
        for name in _names(waiting.pop(0).text):
            path = os.path.normpath(folder / name)
            real = os.path.realpath(path)
            if path in beside or len(beside) >= MOST_BESIDE or real == os.path.realpath(main.file):
                continue
            if not real.startswith(root + os.sep) or not os.path.isfile(real):  # noqa: PTH113 - a path that is a text
                continue
            cost.progress()
            read = read_inside(real)
            if read is None or size + len(read[0]) > MOST_CHARACTERS or MARK.search(read[0]):
                continue
            size += len(read[0])
            beside[path] = SourceFile(path, *read, is_named=False, is_followed=True)
            if can_name(beside[path]):
                waiting.append(beside[path])
    every = starts((main, *beside.values()))
    return next((files for files in every if files.main is main), StartFiles(main))


def with_modules(start: StartFiles, opened: Mapping[str, str] = NOTHING_OPENED) -> StartFiles:
    """With what its programs import of their own folders, or of folders below. `opened`: texts of files as an editor
    has them."""
    here = _folder(start.main)
    programs = (_linked(file, here, opened) for file in start.files if file.file.endswith(".py"))
    return structs.replace(start, linked=placed([program for program in programs if program is not None]))


def _folder(file: SourceFile) -> str:
    return os.path.dirname(os.path.realpath(file.file)) + os.sep  # noqa: PTH120 - `python -m package.train` starts here


def _linked(program: SourceFile, here: str, opened: Mapping[str, str]) -> LinkedProgram | None:
    roots = tuple({here, _folder(program)})
    size = 0

    def read(path: str) -> str | None:
        nonlocal size
        real = os.path.realpath(path)
        if not real.startswith(roots) or not os.path.isfile(real):  # noqa: PTH113 - a path that is a text
            return None
        if real in opened:
            return opened[real]
        cost.progress()
        found = read_inside(real)
        size += len(found[0]) if found is not None else 0
        return found[0] if found is not None and size <= LONGEST_PARSED else None

    try:
        return linked(program.file, program.text, read)
    except RecursionError:  # expressions of a thousand levels
        return None


def typed(words: Sequence[str]) -> StartFiles:
    """A command as it is typed in this folder: with what it names of it, and with the first script or program that it
    names, wherever that lies, for the user himself has named that."""
    main = SourceFile(COMMAND_LINE, command_text(words))
    beside = {file.file: file for file in named_by(main).beside}
    for word in words:
        if word.endswith((*SCRIPTS, ".py")) and os.path.normpath(word) not in beside and Path(word).is_file():
            if (read := read_inside(os.path.realpath(word))) is not None and not MARK.search(read[0]):
                beside |= {file.file: file for file in named_by(SourceFile(word, *read, is_followed=True)).files}
            break
    return with_modules(StartFiles(main, tuple(beside.values())))


def _names(text: str) -> Iterator[str]:
    """Words that may be a file in the folder of the text; `$ROOT/worker.sh` may lie anywhere, and here too."""
    if COMPOSE.search(text):
        yield ".env"
    for number, word in enumerate(paths_in(text)):
        if number > MOST_WORDS:
            return
        *folders, name = word.split("/")
        if word.startswith("/") or ".." in folders:
            continue
        while folders and ("$" in folders[0] or folders[0] in ("", ".")):
            folders = folders[1:]
        if any(set(part) & set("$%{}") for part in (*folders, name)):
            continue
        if name.endswith((*SCRIPTS, *BESIDE)) or HOSTFILE_NAME.search(name):
            yield str(PurePath(*folders, name))
            if not folders and (inside := entered(text, word)):
                yield str(PurePath(inside, name))
