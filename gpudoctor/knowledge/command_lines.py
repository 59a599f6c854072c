"""What a command line starts: the program, the script, the launcher; and what of it may be kept of a process that is
not the reader's own, or is handed on: these, and options that we know, with values of a known shape.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.knowledge import shapes
from gpudoctor.knowledge.shapes import HIDDEN, Kind

TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher.api"})
PROGRAMS = {
    "torchrun": "torchrun",
    "torchrun_main": "torchrun",
    "accelerate": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "ds": "deepspeed",
    "srun": "srun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "horovodrun": "mpirun",
    "fabric": "torchrun",
}
MODULES = {
    **dict.fromkeys(TORCHRUN_MODULES, "torchrun"),
    "torch.distributed.elastic.multiprocessing": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.launch": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
    "lightning.fabric.cli": "torchrun",
}
WITH_OPTIONS = ("torchrun", "accelerate", "deepspeed")
"""Launchers whose own options stand before the script's name; srun and mpirun start any program."""
FLAGS_OF_PYTHON = frozenset("bBdEhiIOPqsSuvVx?")
WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Python's options of two words."""

SWITCHES = frozenset(
    """
    standalone no-python run-path use-env m module help version enable-affinity-aware-numa duplicate-stdout-filters
    duplicate-stderr-filters virtual-local-rank signals-to-handle-default
    multi-gpu cpu tpu debug quiet q downcast-bf16 same-network ipex
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Options of torchrun and accelerate that take no value."""
MORE_SWITCHES = re.compile(r"use-[\w-]+|dynamo-use-\w+", re.ASCII)

OPTIONS: dict[Kind, str] = {
    "plain": """
        nnodes nproc-per-node node-rank rdzv-backend rdzv-conf master-port max-restarts monitor-interval start-method
        redirects r tee t local-ranks-filter
        num-processes num-machines machine-rank main-process-port mixed-precision num-cpu-threads-per-process gpu-ids
        zero-stage gradient-accumulation-steps dynamo-backend
        num-nodes num-gpus num-accelerators ssh-port min-elastic-nodes max-elastic-nodes
        nodes N ntasks n np ntasks-per-node npernode ppn cpus-per-task c gpus G gpus-per-node gpus-per-task mpi
        rank global-rank world-size local-rank
    """,
    "hosts": "rdzv-endpoint master-addr local-addr main-process-ip",
    "id": "rdzv-id",
}
"""Options that are kept by name, and what a value of each looks like: of torchrun, accelerate and deepspeed, of srun
and mpirun, and those by which a script that is started by hand is told its rank. `_` and `-` are the same."""
OF_A_SCRIPT = frozenset(
    "rank global-rank world-size local-rank node-rank master-addr master-port dist-url init-method".split()  # noqa: SIM905
)
"""The only ones of a script's own."""
URLS = ("dist-url", "init-method")
URL = re.compile(r"(tcp://)(.+)|env://", re.ASCII)
_KINDS: dict[str, Kind] = {name: kind for kind, names in OPTIONS.items() for name in names.split()}

NAME = re.compile(r"[A-Za-z0-9_][\w.:+-]{0,99}", re.ASCII)
"""A program, a script or a module."""
CODE = re.compile(
    r"from (?:multiprocessing\.(?:spawn|forkserver|resource_tracker|semaphore_tracker)|gpudoctor(?:\.\w{1,30}){0,4})"
    r" import \w{1,30}",
    re.ASCII,
)
"""What `python -c` is given by multiprocessing and by us."""
OF_TORCH = "compile_worker/__main__.py"
"""A script that its folder names."""

MOST_WORDS = 256
Value = Callable[[Kind, str], str]
"""What an option's value is shown as."""


def base(path: str) -> str:
    return path.rpartition("/")[2]


def key(name: str) -> str:
    """An option's name without its dashes; "_" and "-" are the same."""
    return name.lstrip("-").replace("_", "-")


def is_python(name: str) -> bool:
    return re.fullmatch(r"(?:pypy|python)[\d.]*(?:-\w+)?", name) is not None


def is_switch(name: str) -> bool:
    """Whether an option of torchrun or accelerate takes no value."""
    return name in SWITCHES or MORE_SWITCHES.fullmatch(name) is not None


def names_a_module(word: str) -> bool:
    """Whether this is Python's -m, alone or behind flags: "-um"."""
    return word == "-m" or (re.fullmatch(r"-[^-]*m", word) is not None and set(word[1:-1]) <= FLAGS_OF_PYTHON)


def takes_next(words: Sequence[str]) -> bool:
    """Whether the first of `words` can be the value of the option before it."""
    return bool(words) and (not words[0].startswith("-") or re.fullmatch(r"-\d+", words[0]) is not None)


def program_of(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The program that a command runs, and the words after it: ("torchrun", ("train.py",)).

    Of `python -m NAME` the module as "-m NAME", of `python FILE` the file's name, of `python -c TEXT` "-c"; the
    interpreter itself where it runs none.
    """
    if not command:
        return "", ()
    name = base(command[0])
    if not is_python(name):
        return name, command[1:]
    at = 1
    while at < len(command):
        word = command[at]
        if names_a_module(word):
            return (f"-m {command[at + 1]}", command[at + 2 :]) if at + 1 < len(command) else (name, ())
        if word == "-c":
            return "-c", command[at + 1 :]
        if word in WITH_VALUE:
            at += 2
        elif word.startswith("-") and len(word) > 1:
            at += 1
        else:
            return base(word), command[at + 1 :]
    return name, ()


# ---------------------------------------------------------------- what is kept


def kept(command: Sequence[str], value: Value = shapes.kept) -> tuple[str, ...]:
    """A command line of which only the program, the script and known options are left; all else is `HIDDEN`.

    Doing it twice changes nothing more. An option that is not known is "--***", so that what is there still reads as
    options, values and a script.
    """
    return tuple(_program(list(command[:MOST_WORDS]), value))


def brief(command: Sequence[str]) -> str:
    """A command line in a few words: "python train.py", "torchrun --nnodes 2 train.py"."""
    return " ".join(word for word in kept(command) if HIDDEN not in word)


def _program(words: list[str], value: Value) -> Iterator[str]:
    if not words:
        return
    name = base(words.pop(0))
    yield _named(name)
    if is_python(name):
        yield from _python(words, value)
    elif PROGRAMS.get(name.removesuffix(".py")) in WITH_OPTIONS:
        yield from _launcher(words, value)
    elif name.endswith(".py"):
        yield from _script(words, value)
    else:
        yield from _around(words, value)


def _named(name: str) -> str:
    return name if NAME.fullmatch(name) else HIDDEN


def _python(words: list[str], value: Value) -> Iterator[str]:
    while words:
        word = words.pop(0)
        if word == "-c":
            yield word
            found = CODE.match(words.pop(0)) if words else None
            yield found[0] if found else HIDDEN
            yield from (each if each == "--multiprocessing-fork" else HIDDEN for each in words)
            return
        if word in WITH_VALUE:
            yield word
            if words:
                yield HIDDEN
                words.pop(0)
        elif word.startswith("-") and len(word) > 1 and not names_a_module(word):
            yield word if set(word[1:]) <= FLAGS_OF_PYTHON else f"--{HIDDEN}"
        else:
            starter = PROGRAMS.get(base(word).removesuffix(".py"))
            if names_a_module(word):
                yield word
                word = words.pop(0) if words else ""
                starter = MODULES.get(word)
            yield OF_TORCH if word.endswith(f"/{OF_TORCH}") or word == OF_TORCH else _named(base(word))
            yield from (_launcher if starter in WITH_OPTIONS else _script)(words, value)
            return


def _launcher(words: list[str], value: Value) -> Iterator[str]:
    """Options of the launcher's own, and the script that it starts."""
    if words and words[0] in ("launch", "run"):
        yield words.pop(0)
    while words:
        word = words.pop(0)
        if word.startswith("-") and word not in ("-", "--"):
            yield from _option(word, words, value)
        elif word == "--":
            yield word
        elif is_python(base(word)):
            yield from _program([word, *words], value)
            return
        else:
            yield _named(base(word))
            yield from _script(words, value)
            return


def _option(word: str, words: list[str], value: Value) -> Iterator[str]:
    """One option, with its value where it has one."""
    written, equals, given = word.partition("=")
    name = key(written)
    if is_switch(name) and not equals:
        yield written if name in SWITCHES else f"--{HIDDEN}={HIDDEN}"
    elif equals:
        yield f"{written}={_value(name, given, value)}" if _is_known(name) else f"--{HIDDEN}={HIDDEN}"
    else:
        yield written if _is_known(name) else f"--{HIDDEN}"
        if takes_next(words):
            yield _value(name, words.pop(0), value)


def _is_known(name: str) -> bool:
    return name in _KINDS or name in URLS


def _value(name: str, given: str, value: Value) -> str:
    if name in URLS:
        found = URL.fullmatch(given)
        return f"{found[1]}{value('hosts', found[2])}" if found and found[1] else given if found else HIDDEN
    return value(_KINDS[name], given) if name in _KINDS else HIDDEN


def _script(words: list[str], value: Value) -> Iterator[str]:
    """The words of a script, which are its own: only what tells it its rank is kept."""
    while words:
        word = words.pop(0)
        if word.startswith("-") and key(word.partition("=")[0]) in OF_A_SCRIPT:
            yield from _option(word, words, value)
        else:
            yield HIDDEN


def _around(words: list[str], value: Value) -> Iterator[str]:
    """The words of srun, of mpirun, of a shell or of any other program, up to a Python or launcher that it starts."""
    while words:
        word = words.pop(0)
        name = base(word)
        if is_python(name) or name.endswith(".py") or name in PROGRAMS:
            yield from _program([word, *words], value)
            return
        attached = re.fullmatch(r"-[NncG][0-9]{1,6}", word)
        if attached or (word.startswith("-") and _is_known(key(word.partition("=")[0]))):
            yield from (word,) if attached else _option(word, words, value)
        else:
            yield f"--{HIDDEN}" if word.startswith("--") and "=" not in word else HIDDEN
