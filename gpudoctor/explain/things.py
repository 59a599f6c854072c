"""What a path that was asked for and is not there *is*, and what is to be done about such a thing: nobody puts a socket
or a driver's file there, and a file of an installed package is not the user's to give.

Asked in order, by the path alone: what makes files of that name is told by their place before their ending.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.causes.program_error import MOUNTED
from gpudoctor.explain.own_fixes import DISTRIBUTIONS, command_fix
from gpudoctor.lazy import lazy_re

OF_ITS_FOLDER = "give its whole path, or start the job in the folder from which this one leads there (cd, --chdir)"


class NamedThing(NamedTuple):
    kind: str
    words: re.Pattern[str]
    how: str
    is_mounted: bool = False
    """It is the user's, and a container has it only where it is handed in."""


def _rows(*rows: tuple[str, str, str, bool]) -> tuple[NamedThing, ...]:
    return tuple(NamedThing(kind, lazy_re(words), how, mounted) for kind, words, how, mounted in rows)


THINGS = _rows(
    (
        "socket",
        r"\.sock(?:et)?$|/\.X11-unix/|^/(?:var/)?run/[\w./-]*(?:socket|\.pid)$",
        "who makes it does not run there, or a container is not given it: start that daemon on the node, or mount its "
        "socket into the container",
        False,
    ),
    (
        "kernel",
        r"^/(?:proc|sys)/",
        "the kernel, or the container that runs there, does not show it: a module is not loaded, or access is not "
        "handed in",
        False,
    ),
    (
        "package",
        r"[/\\](?:site|dist)-packages[/\\](?P<package>[A-Za-z]\w{0,60})[/\\]",
        "the installation of {package} is not whole, or what looks for it is of another release: python -m pip install "
        "--force-reinstall --no-deps '{distribution}'; of what was compiled, build it again",
        False,
    ),
    (
        "cache",
        r"(?:/|^)(?:models|datasets|spaces)--[^/]+/|/snapshots/[0-9a-f]{4,64}/|/\.cache/(?!torch_extensions)[\w.-]+/",
        "the copy in that cache is not whole: remove it there and have it fetched again, once and before the job; "
        "where the node has no network (an offline mode), fetch it on one that has",
        False,
    ),
    (
        "compiled",
        r"/torchinductor_[^/]+/|/\.triton/|/triton(?:/cache|_cache\w*)?/[\w-]+/[\w.-]+$|/torchinductor/",
        "processes that compile at once replace each other's files in that cache, or somebody emptied it: start again, "
        "and give each node a folder on a disk of its own, or each rank one (TORCHINDUCTOR_CACHE_DIR, "
        "TRITON_CACHE_DIR)",
        False,
    ),
    (
        "temporary",
        r"^/(?:var/)?tmp/|/pymp-|/tmp[a-z0-9_]{8}(?:/|$)",
        "something removed it while it was used (a cleaner of that folder, the end of another process), or it was made "
        "on another node or in another container, which has a folder of its own there. Give each job its own "
        "(TMPDIR), on a file system that all see where several nodes use it",
        False,
    ),
    (
        "program",
        r"(?:^|/)s?bin/(?P<name>[\w.+-]{1,60})$",
        "that program is not installed there, or elsewhere: install it, or give the path that it has (command -v)",
        False,
    ),
    (
        "checkpoint",
        r"(?i)\.(?:ckpt|pth?|safetensors|distcp|pdparams|gguf|t7|nemo)(?:\.tar|\.index|\.tmp)?$|"
        r"(?:^|[/_-])(?:check_?points?|ckpts?|global_step|iter_|epoch[=_-]?\d|step[=_-]?\d)[\w.=-]*(?:/[\w.=-]*){0,3}$|"
        r"(?:^|/)(?:pytorch_model|model-\d|adapter_model|optimizer|rng_state|latest_checkpointed)[\w.-]*$",
        "name one that was saved (list what its folder holds: it may be called otherwise, or lie in another run's "
        "folder or on another node's own disk), or start without it where nothing has been saved yet; published "
        "weights are fetched first",
        True,
    ),
    (
        "configuration",
        r"(?i)\.(?:ya?ml|toml|ini|cfg|conf)$|config[\w-]*\.json$|(?:^|/)(?:ds|zero|deepspeed)[\w-]*\.json$",
        OF_ITS_FOLDER,
        True,
    ),
    ("script", r"(?i)\.(?:py|sh|bash|slurm|sbatch|ipynb)$", OF_ITS_FOLDER, True),
    (
        "data",
        r"(?i)(?:^|/)(?:data(?:sets?|base)?|corpus|corpora|imagenet|coco|train(?:ing)?|val(?:idation)?|test|shards?|"
        r"images?|annotations?|labels?|videos?|audio|wavs?)[\w.-]*(?:/|$)|\.(?:jsonl?|csv|tsv|parquet|arrow|tar|lmdb|"
        r"npy|npz|jpe?g|png|webp|tiff?|wav|flac|mp[34]|txt|zst|gz|idx|bin|tfrecord|mdb|h5|hdf5|pkl)$",
        "see that the data lie there on every node, unpacked and spelled so, or name the folder that has them where "
        "the program is told of it (its option or setting for the data)",
        True,
    ),
)
OF_ANY = NamedThing(
    "",
    lazy_re(""),
    "put it there, or give the path that it has; where an earlier step makes it (a download, a build, a save), see why "
    "that has not",
    True,
)


def thing_of(path: str) -> NamedThing:
    return next((thing for thing in THINGS if thing.words.search(path)), OF_ANY)


def about(path: str) -> str:
    """What is to be done where it is not there."""
    thing = thing_of(path)
    if thing.how == OF_ITS_FOLDER and path.startswith("/"):
        thing = OF_ANY
    found = thing.words.search(path)
    values = found.groupdict() if found else {}
    if thing.kind == "program" and (how := command_fix(values["name"])[1].get("how", "")):
        return how.rstrip(".")
    if package := values.get("package", ""):
        values["distribution"] = DISTRIBUTIONS.get(package, package.replace("_", "-"))
    return (thing.how.format_map(values) if values else thing.how) + (MOUNTED if thing.is_mounted else "")


REMOVES = lazy_re(r"^(?:_?rmtree\w{0,12}|unlink|remove\w{0,12}|rmdir|rename|replace|move)$")
REMOVING = lazy_re(r"\b(?:rmtree|unlink|remove|removedirs|rmdir|rename|replace|move)\(")


def is_removed(raised_by: str, code: str) -> bool:
    """Who raised it was removing or moving the file, and not reading it. `code`: of that line, and of the program's."""
    return REMOVES.match(raised_by) is not None or REMOVING.search(code) is not None


IS_NOT_INSTALLED = lazy_re(r"^the module (?P<top>[A-Za-z]\w{0,60})[\w.]{0,200} is not installed")
FRAME_FILE = lazy_re(r"\bFile \"(?P<file>/[^\"\n]{1,400})\"")


def own_module(summary: str, texts: Sequence[str]) -> dict[str, str]:
    """Values for a module that lies in the folders from which the program itself runs; empty: it is no such one.
    `summary`: that tells which is missing; `texts`: lines of the log, with the frames."""
    match = IS_NOT_INSTALLED.search(summary)
    if match is None:
        return {}
    for found in (found for text in texts for found in FRAME_FILE.finditer(text)):
        *folders, file = found["file"].split("/")
        if {"site-packages", "dist-packages"} & {*folders} or any(part.startswith("python3") for part in folders):
            continue
        at = len(folders) - 1 - folders[::-1].index(match["top"]) if match["top"] in folders else 0
        at = len(folders) if file == f"{match['top']}.py" else at
        if at:
            return {"name": match["top"], "folder": "/".join(folders[:at]) or "/"}
    return {}


OWN_NAME = lazy_re(
    r"cannot import name '(?P<name>\w{1,80})' from (?:partially initialized module )?'(?P<module>[\w.]{1,120})' "
    r"(?:\(most likely due to a circular import\) )?"
    r"\((?P<file>(?![^)\n]{0,300}(?:-packages|/lib/python3))/[^)\n]{1,300})\)"
)
"""Of a file that no installation has brought."""


def name_of_own_file(message: str) -> tuple[str, dict[str, str]] | None:
    """The variant of the cause library-missing for a name that an import asks of a file of the program's own, and its
    values."""
    match = OWN_NAME.search(message)
    return ("own-name", match.groupdict()) if match else None


__all__ = ["about", "is_removed", "name_of_own_file", "own_module", "thing_of"]
