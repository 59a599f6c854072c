"""Which words start Python, what they start with it, and what only wraps another command."""

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Word

PYTHON = lazy_re(r"(?:python|pypy)[\d.]*t?(?:\.exe)?")
PYTHON_VARIABLE = lazy_re(
    r"\$\{?(?!\w*VERSION)\w*(?:PYTHON|PYEXE|PY_BIN|PYBIN)\w*(?::?-[^}]*)?\}?|\$\{?PY\}?", re.IGNORECASE
)
FLAGS = frozenset("bBdEhiIOPqsSuvVx?")
"""Of Python itself."""
WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")

_WRAPPERS = """
    poetry:run pipenv:run pdm:run hatch:run rye:run pixi:run uv:run conda:run mamba:run micromamba:run
    oumi:distributed dora:run,launch nsys:profile,launch ncu: rocprof: rocprofv2: rocprofv3: omnitrace-run:
    py-spy:record ddtrace-run:
    opentelemetry-instrument: viztracer: scalene: coverage:run memray:run kernprof: compute-sanitizer: gdb: ipython:
"""
WRAPPERS = {
    program: tuple(filter(None, words.split(",")))
    for program, _, words in (part.partition(":") for part in _WRAPPERS.split())
}
"""Program -> the words of which one must follow; () when none must."""
ADD_OPTIONS = ("oumi",)
"""Wrappers that tell a launcher nodes, processes and head by themselves (oumi/core/cli/distributed_run.py)."""
LIKE_PYTHON = ("uv", "coverage", "memray", "kernprof", "viztracer", "scalene", "ipython")
"""Wrappers that run a script, or `-m MODULE`, in their own Python."""

NOT_TRAINING = lazy_re(
    r"(?:setup|conftest|manage|versioneer|collect_env)$"
    r"|(?:^|.*[_\W])(?:build|download|prepare|preprocess|pre_process|tokenize|tokenise|convert|plot|visualize|visualise|export|merge|"
    r"find_free_port|free_port|get_port|get_free_port|get_ip|get_master|install|parse|print|summarize|aggregate|wait_for\w*)"
    r"(?:_.*)?$",
    re.IGNORECASE,
)
"""Names of scripts that people run beside a training: never taken for one."""
TOOLS = frozenset(
    """
    pip venv ensurepip virtualenv site compileall json zipfile http timeit cProfile pdb platform unittest
    pytest mypy ruff black flake8 pylint tox nox jupyter notebook ipykernel tensorboard wandb nltk spacy
    sysconfig calendar this build twine torch.utils.collect_env torch.utils.bottleneck huggingface_hub ray
    gpustat nvitop py3nvml sqlite3 base64 socket uuid string random secrets textwrap tarfile gzip ast dis
    inspect pydoc doctest accelerate deepspeed.env_report
    """.split()  # noqa: SIM905  one name a line would be seventy lines
)
"""Modules that `python -m` runs and that train nothing (their submodules neither, where no entry says otherwise)."""


CONSOLE = lazy_re(r"(?:.*[-_.])?(?:hydra-)?(?:train|pretrain|finetune|fine-tune|sft)(?:[-_.].*)?", re.IGNORECASE)
"""Console scripts that train, by their names: `fairseq-train`, `nequip-train`."""
SUBCOMMANDS = frozenset(("train", "fit", "sft", "pretrain", "finetune", "dpo", "grpo", "rlhf"))
"""Of programs that train among other things: `trl sft`, `yolo train`, `xtuner train`."""


NO_TRAINERS = frozenset(
    """
    alias apt awk bash basename cat cd chmod chown cp cut date declare diff dirname docker du echo env eval exec export
    find function git grep gunzip head jq kill kubectl less ln local ls make mkdir mktemp module ml mv nohup pip pip3
    popd printf ps pushd python read readonly rm rmdir rsync salloc sbatch scancel scontrol scp sed set sh sleep sort
    source squeue srun ssh stat sudo tail tar tee test time timeout touch tr type typeset uniq unset unzip wc wget which
    xargs zip aws gsutil gcloud az helm s3cmd rclone conda mamba module-load trap type until while wandb tensorboard
    """.split()  # noqa: SIM905  one name a line would be eighty lines
)
"""Programs whose next word is a file or a folder that may be called train."""


_SERVING = lazy_re(r"(?:^|/)vllm-openai(?:-[\w.]+)?(?:[:@].*)?$")


def entrypoint_of(image: str) -> tuple[str, ...]:
    """What an image starts by itself and hands its arguments to; () where we do not know. vLLM's docker/Dockerfile."""
    return ("vllm", "serve") if _SERVING.search(image) else ()


class StartedByPython(Struct, frozen=True):
    """What an interpreter runs. `script` is None for `-c`, for standard input and for none at all."""

    script: Word | None
    module: bool
    rest: tuple[Word, ...]
    """The words behind the script."""
    index: int
    """Where `rest` begins, in the words that were given."""
    options: tuple[Word, ...] = ()


WHICH = lazy_re(r"(?:\$\(|`)(?:which|command -v|type -p) ([\w.+-]+)(?:\)|`)", re.ASCII)
"""`$(which python)`: a path to it."""


def name_of(word: Word) -> str:
    """The program that a word names, without its folder: "python3.11" of "/usr/bin/python3.11"."""
    shown = word.text if word.text is not None else word.shown
    if word.text is None and PYTHON_VARIABLE.fullmatch(shown):
        return "python"
    which = WHICH.fullmatch(shown)
    if which is not None:
        return which[1]
    return shown.rpartition("/")[2]


def is_python(word: Word) -> bool:
    return PYTHON.fullmatch(name_of(word)) is not None


def is_script(word: Word) -> bool:
    return word.shown.endswith(".py")


def python_runs(shown: Sequence[str], start: int = 1) -> tuple[Literal["script", "module", "code", ""], int]:
    """What `python [options] ...` runs, and the index of its word; `shown[start]` is the first after the interpreter.

    "": standard input, or nothing; then the index is behind the options.
    """
    index = start
    while index < len(shown):
        word = shown[index]
        if word == "-":
            return "", index
        if not word.startswith("-"):
            return "script", index
        if word in WITH_VALUE:
            index += 2
            continue
        letters = re.match(r"-[bBdEhiIOPqsSuvVx?]*([mcXW])", word)
        if letters is None:
            index += 1
        elif letters[1] in "XW":
            index += 1 if len(word) > letters.end() else 2
        elif letters[1] == "c":
            return "code", index + (len(word) == letters.end())
        elif len(word) > letters.end() or index + 1 >= len(shown):
            return "", index
        else:
            return "module", index + 1
    return "", min(index, len(shown))


def started_by_python(words: Sequence[Word], start: int = 1) -> StartedByPython:
    """What `python [options] ...` runs; `words[start]` is the first after the interpreter."""
    kind, index = python_runs([word.shown for word in words], start)
    if kind not in ("script", "module"):
        return StartedByPython(None, False, (), len(words), tuple(words[start:index]))
    options = tuple(words[start : index - (kind == "module")])
    return StartedByPython(words[index], kind == "module", tuple(words[index + 1 :]), index + 1, options)


def console(words: Sequence[Word]) -> StartedByPython | None:
    """A training's own program, by its name or by what it is told to do; None: it is none that we know by that."""
    name = name_of(words[0])
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or name.endswith((".sh", ".bash")) or name in NO_TRAINERS:
        return None
    if CONSOLE.fullmatch(name) and NOT_TRAINING.match(name) is None:
        return StartedByPython(words[0], False, tuple(words[1:]), 1)
    for at, word in enumerate(words[1:3], 1):
        if word.shown in SUBCOMMANDS and all(re.fullmatch(r"[a-z]\w*", written.shown) for written in words[1:at]):
            return StartedByPython(words[0], False, tuple(words[at + 1 :]), at + 1)
    return None


def trains(script: Word, module: bool) -> bool:
    """Whether a script may be the training, by its name."""
    shown = script.text if script.text is not None else script.shown
    if module:
        parts = shown.split(".")
        return not any(".".join(parts[:count]) in TOOLS for count in range(1, len(parts) + 1))
    return NOT_TRAINING.match(shown.rpartition("/")[2].removesuffix(".py")) is None


def wrapped(words: Sequence[Word], starters: Collection[str]) -> int | None:
    """Where the command begins that a wrapper (poetry run, nsys profile) starts; None: it is no wrapper.

    Wrappers' options are not read: the command is the first word that names Python, a script or a launcher.
    """
    program = name_of(words[0])
    if program not in WRAPPERS:
        return None
    needed = WRAPPERS[program]
    following = next((index for index, word in enumerate(words[1:], 1) if word.shown in needed), None) if needed else 0
    if following is None:
        return None
    for index in range(following + 1, len(words)):
        word = words[index]
        if is_python(word) or is_script(word) or name_of(word) in starters:
            return index
        if program in LIKE_PYTHON and word.shown == "-m":
            return index
    return None
