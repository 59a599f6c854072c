"""The files that somebody names for `lint`: themselves, and of a folder those that look as if they start something.

Nothing outside of a folder that was named is read, no link that leads out of it is followed, and nothing but regular
files is opened there.
"""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from gpudoctor import bounded, cost
from gpudoctor.errors import BadInput
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.asked import decoded, text_and_codec
from gpudoctor.lint.gaps import BRACED
from gpudoctor.lint.manifests import looks_like_manifest
from gpudoctor.lint.read import HOSTFILE_NAME
from gpudoctor.lint.starts import SourceFile
from gpudoctor.lint.trainers import CALL

SCRIPTS = (".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".job", ".pbs", ".qsub", ".lsf", ".bsub", ".sub",
           ".yaml", ".yml", ".dockerfile", ".mk")  # fmt: skip
BESIDE = (".py", ".json", ".env")
"""They belong to a start that names them; a program is one too where it makes its ranks itself."""
SOURCED = lazy_re(r"(?:^|[\s;&|(])(?:source|\.)[ \t]+[\"']?(?:[^\s\"';&|]*/)?([\w.-]+)")
"""The last name of a file that a shell reads into itself: it starts nothing, and sets what a start has."""
NAMES = lazy_re(r"(?:dockerfile|makefile|gnumakefile)(?:\..*)?$", re.IGNORECASE)
NOT_OURS = ("node_modules", "__pycache__", "site-packages", "dist-packages")
MOST_FILES = 50_000
"""Names that are looked at in a folder."""
MOST_READ = 4_000
MOST_UNREAD = 20
HEADERS = r"#SBATCH|#PBS|#BSUB|#PJM|#\$|#flux:|\bkind:|\bpython"


class GivenFiles(Struct, frozen=True):
    """What was named, as it was read."""

    files: tuple[SourceFile, ...] = ()
    unread: dict[str, str] = {}
    """A named file, or a folder below a named one -> why it could not be read."""
    folders: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    """Scripts and manifests of a folder in which no word starts a training."""


def gathered(names: Sequence[str]) -> GivenFiles:
    """Reads what was named. Raises `BadInput` for a folder that is too large."""
    files: dict[str, SourceFile] = {}
    unread: dict[str, str] = {}
    passed_over: list[str] = []
    folders = tuple(name for name in dict.fromkeys(names) if name != "-" and os.path.isdir(name))  # noqa: PTH112
    for name in dict.fromkeys(names):
        if name in folders:
            continue
        cost.progress()
        try:
            files[name] = SourceFile(name, *text_and_codec(name, name))
        except BadInput as error:
            unread[name] = str(error).removeprefix(name).lstrip(": ")
    real = {os.path.realpath(file) for file in files}
    for folder in folders:
        for path in _candidates(folder, unread):
            if os.path.realpath(path) in real:
                continue
            if len(files) >= MOST_READ:
                raise BadInput(f"{folder}: more than {MOST_READ} files look like starts; name a folder in it")
            cost.progress()
            text = read_inside(path)
            if text is None:
                continue
            if path.endswith(BESIDE) or is_hostfile(path) or mentions_a_start(text[0]):
                files[path] = SourceFile(path, *text, is_named=False)
            else:
                passed_over.append(path)
    sourced = {name for file in files.values() if not file.file.endswith(".py") for name in SOURCED.findall(file.text)}
    for path in [path for path in passed_over if Path(path).name in sourced]:
        if len(files) < MOST_READ and (text := read_inside(path)) is not None:
            passed_over.remove(path)
            files[path] = SourceFile(path, *text, is_named=False)
    return GivenFiles(tuple(files.values()), unread, folders, tuple(passed_over))


_FILLED_IN = lazy_re(rf"^#SBATCH[^\n]*?{BRACED.pattern}", re.MULTILINE)


def may_start(source: SourceFile) -> bool:
    """Whether a file of a folder that no start names is one itself."""
    if source.is_named:
        return True
    if "template" in os.path.basename(source.file).lower() and _FILLED_IN.search(source.text):  # noqa: PTH119
        return False  # sed or a program makes the starts of it
    if source.file.endswith(".py"):
        return "__main__" in source.text and CALL.search(source.text) is not None
    return not source.file.endswith(BESIDE) and not is_hostfile(source.file)


def is_hostfile(path: str) -> bool:
    """By its name."""
    return HOSTFILE_NAME.search(Path(path).name) is not None


def mentions_a_start(text: str) -> bool:
    """Whether it is worth to be judged: it has a word of a launcher, or the form of a config that is one."""
    return starters().search(text) is not None or looks_like_manifest(text)


@cache
def starters() -> re.Pattern[str]:
    """A word by which a text may start something."""
    words = {
        name.split()[0]
        for launcher in registry.every()
        for form in launcher.forms
        for name in (*form.programs, *form.modules)
    }
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(words)))})(?![\w-])|{HEADERS}")


def _candidates(folder: str, unread: dict[str, str]) -> Iterator[str]:
    """By name, in order. A link is followed where it stays in the folder. Of folders that may not be read, `unread` is
    told.
    """

    def refused(error: OSError) -> None:
        if len(unread) < MOST_UNREAD:
            unread[os.path.normpath(error.filename)] = (error.strerror or str(error)).lower()

    root = os.path.realpath(folder)
    seen = 0
    for path, folders, names in os.walk(folder, onerror=refused):
        folders[:] = sorted(
            each
            for each in folders
            if (not each.startswith(".") or each == ".github")
            and each not in NOT_OURS
            and not os.path.exists(os.path.join(path, each, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - of thousands
        )
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                raise BadInput(f"{folder}: it holds more than {MOST_FILES} files; name a folder in it")
            if not _looks_like_one(name):
                continue
            path_of_file = os.path.join(path, name)  # noqa: PTH118
            try:
                is_outside = os.path.islink(path_of_file) and not _inside(path_of_file, root)  # noqa: PTH114
            except OSError:  # a link that may not be followed
                continue
            if not is_outside:
                yield os.path.normpath(path_of_file)


def _inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(root + os.sep)


def _looks_like_one(name: str) -> bool:
    if name.startswith("."):
        return False
    plain = "." not in name
    return plain or name.lower().endswith((*SCRIPTS, *BESIDE)) or bool(NAMES.match(name) or HOSTFILE_NAME.search(name))


def read_inside(path: str) -> tuple[str, str] | None:
    """The text of a file of a folder; None for what is no text, or no regular file."""
    try:
        descriptor = bounded.regular(path)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(bounded.SCRIPT.size + 1)
        text = decoded(raw) if len(raw) <= bounded.SCRIPT.size else None
    except (OSError, ValueError, bounded.Refused):
        return None
    if text is not None and "." not in os.path.basename(path):  # noqa: PTH119
        known = text[0].startswith("#!") or NAMES.match(os.path.basename(path)) or HOSTFILE_NAME.search(path)  # noqa: PTH119
        return text if known else None
    return text
