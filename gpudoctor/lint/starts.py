"""Several files -> the starts in them: a file, and those of the others that it names, judged as one.

What is named stands behind the text as `#@ file NAME`, as somebody writes it who puts a start of several files into
one. A file that a start names is none by itself.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.dockerfile import looks_like_dockerfile
from gpudoctor.lint.model import LinkedProgram
from gpudoctor.lint.places import Piece
from gpudoctor.lint.sections import MARK, split
from gpudoctor.lint.shell.sbatch import looks_like_batch

WORD = lazy_re(r"[\w.+@%${}-]*(?:/[\w.+@%${}-]+)+|[\w.+@%-]+")
MODULE = lazy_re(r"(?<!\S)(?:-m|--module)(?:[ \t]+|=)[\"']?([A-Za-z_]\w{0,99}(?:\.[A-Za-z_]\w{0,99}){0,9})(?![\w./-])")
CD = lazy_re(r"(?:^|[;&|(]|\bthen|\bdo)[ \t]*(?:cd|pushd)[ \t]+([^\s;&|)]+)", re.MULTILINE)
BELOW = lazy_re(r"\w[\w.-]*(?:/[\w.-]+)*/?", re.ASCII)
MOST_BESIDE = 32
COMMAND_LINE = "the command line"
"""What stands for the file of a command that was typed."""


class SourceFile(Struct, frozen=True):
    """A file as it was read."""

    file: str
    """Its name, as it was given or found."""
    text: str
    codec: str = "utf-8"
    is_named: bool = True
    """By the user himself; else it lay in a folder."""
    is_followed: bool = False
    """Nobody named it but a start beside which it lies."""


class StartFiles(Struct, frozen=True):
    """A start, and what it names."""

    main: SourceFile
    beside: tuple[SourceFile, ...] = ()
    linked: tuple[LinkedProgram, ...] = ()
    """Its programs that import files of their own folders."""

    @property
    def files(self) -> tuple[SourceFile, ...]:
        return (self.main, *self.beside)

    def as_one(self) -> tuple[str, tuple[Piece, ...]]:
        """The text to judge, and where each file stands in it."""
        texts, pieces, at = [], [], 0
        for index, each in enumerate(self.files):
            mark = _mark(each) if index else ""
            body = each.text if each.text.endswith("\n") or len(self.files) == 1 else f"{each.text}\n"
            texts += [mark, body]
            pieces.append(Piece(each.file, at + len(mark), at + len(mark) + len(each.text)))
            at += len(mark) + len(body)
        return "".join(texts), tuple(pieces)

    def apart(self, text: str) -> tuple[str, ...] | None:
        """The text of each file in a corrected one; None where its marks are no more found."""
        found, at = [], 0
        for file in self.beside:
            end = text.find("\n" + _mark(file), max(at - 1, 0))
            if end < 0:
                return None
            found.append(text[at : end + 1])
            at = end + 1 + len(_mark(file))
        found.append(text[at:])
        return tuple(
            new.removesuffix("\n") if len(self.files) > 1 and not old.text.endswith("\n") else new
            for new, old in zip(found, self.files, strict=True)
        )


def _mark(source: SourceFile) -> str:
    return f"#@ file {PurePath(source.file).name}\n"


def starts(sources: Sequence[SourceFile]) -> tuple[StartFiles, ...]:
    """In the order in which they were given."""
    by_name: dict[str, list[SourceFile]] = {}
    for source in sources:
        if not MARK.search(source.text):  # else it is several texts already
            by_name.setdefault(PurePath(source.file).name, []).append(source)
    named = {source.file: tuple(_named_in(source, by_name)) for source in sources}
    inside = {file.file for beside in named.values() for file in beside}
    mains = {source.file for source in sources if source.file not in inside}
    covered = {file.file for main in sources if main.file in mains for file in _all_beside(main, named)}
    for source in sources:  # files that name each other, or have the base name of another that is named
        if source.file not in mains and source.file not in covered:
            mains.add(source.file)
            covered |= {other.file for other in _all_beside(source, named)}
    return tuple(StartFiles(source, tuple(_all_beside(source, named))) for source in sources if source.file in mains)


def _all_beside(main: SourceFile, named: dict[str, tuple[SourceFile, ...]]) -> list[SourceFile]:
    """What it names, and what that names; each base name once, for a mark has no folder."""
    found: dict[str, SourceFile] = {PurePath(main.file).name: main}
    waiting = [main]
    while waiting:
        for file in named[waiting.pop(0).file]:
            name = PurePath(file.file).name
            if name not in found and len(found) <= MOST_BESIDE:
                found[name] = file
                waiting.append(file)
    return list(found.values())[1:]


def paths_in(text: str) -> Iterator[str]:
    """Words that may be a path, and what `-m package.module` is looked for as."""
    yield from dict.fromkeys(WORD.findall(text))
    yield from (f"{name.replace('.', '/')}.py" for name in dict.fromkeys(MODULE.findall(text)))


def _named_in(source: SourceFile, by_name: dict[str, list[SourceFile]]) -> Iterator[SourceFile]:
    """Those of the sources that its text names. Batch scripts only where it is one: headers of two are no one's."""
    if not can_name(source):
        return
    words = dict.fromkeys(word for word in paths_in(source.text) if word.rpartition("/")[2] in by_name)
    told = (_meant(word, source, by_name, entered(source.text, word)) for word in words)
    files = [meant for meant in told if meant is not None]
    batches = {file.file for file in files if looks_like_batch(file.text)}
    yield from (file for file in dict.fromkeys(files) if len(batches) < 2 or file.file not in batches)


def can_name(source: SourceFile) -> bool:
    """Scripts and manifests. A text that is cut up by comments would not be, with a mark behind it."""
    if source.file.endswith((".py", ".json", ".md", ".txt")) or looks_like_dockerfile(source.text):
        return False
    return len(split(source.text)) == 1 or MARK.search(source.text) is not None


def entered(text: str, word: str) -> str:
    """The folder below the text's own, with a slash, that its one `cd` goes to before a file is named; else empty."""
    before = text[: max(text.find(word), 0)]
    folders = CD.findall(before) if "/" not in word and "cd " in before else []
    is_one = len(folders) == 1 and BELOW.fullmatch(folders[0]) and not {".", ".."} & set(folders[0].split("/"))
    return folders[0].rstrip("/") + "/" if is_one else ""


def _meant(word: str, source: SourceFile, by_name: dict[str, list[SourceFile]], inside: str = "") -> SourceFile | None:
    """The file that a word of the text means: from the text's folder, or from one above it, where it is started.
    `inside`: the folder that the text goes to before."""
    *folders, name = f"{inside}{word}".split("/")
    while folders and ("$" in folders[0] or folders[0] in ("", ".")):  # $ROOT/worker.sh: wherever that is
        folders = folders[1:]
    here = PurePath(os.path.normpath(source.file)).parent
    meant = [PurePath(os.path.normpath(above.joinpath(*folders, name))) for above in (here, *here.parents)]
    given = {PurePath(os.path.normpath(file.file)): file for file in by_name[name] if file != source}
    told = next((given[path] for path in meant if path in given), None)
    named = [file for file in given.values() if file.is_named]
    elsewhere = word.startswith(("/", "~")) and len(named) == 1  # its path is that of another machine
    return told if told is not None or not elsewhere else named[0]
