"""What a command line says a process is: a launcher, a child of multiprocessing, the doctor itself. Pure functions."""

import re
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.knowledge.command_lines import (
    MODULES,
    MOST_WORDS,
    PROGRAMS,
    WITH_OPTIONS,
    base,
    is_python,
    is_switch,
    kept,
    key,
    program_of,
    takes_next,
)
from gpudoctor.knowledge.credentials import without_credentials
from gpudoctor.knowledge.shapes import HIDDEN

LONGEST_WORD = 512

SHELLS = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "ksh",
        "tcsh",
        "csh",
        "ssh",
        "sshd",
        "sudo",
        "su",
        "tmux",
        "screen",
        "login",
        "systemd",
        "init",
        "slurmstepd",
        "slurmd",
        "orted",
        "prted",
        "orterun",
        "prterun",
        "timeout",
        "env",
        "nice",
        "nohup",
        "tini",
        "dumb-init",
    }
)
"""Programs that have a rank's variables only to hand them on."""

PYTHON = re.compile(r"python|^pt_|torchrun|deepspeed|accelerate|ray::|ipykernel|jupyter")
"""Names under which Python runs training; torch calls its own pt_main_thread, pt_elastic, pt_data_worker."""

NEEDS_WORD = {"accelerate": "launch", "fabric": "run"}
"""Programs that do other things too."""
TRAINING = re.compile(r"python|torch|accelerate|deepspeed|lightning|train|nccl|\.py$|megatron|nemo", re.IGNORECASE)


def launcher(command: Sequence[str]) -> str:
    """ "torchrun", "accelerate", "deepspeed", "srun" or "mpirun"; empty when it is none of them."""
    program, rest = program_of(command)
    kind = MODULES.get(program[3:], "") if program.startswith("-m ") else PROGRAMS.get(program.removesuffix(".py"), "")
    if program == "-m accelerate.commands.accelerate_cli":
        program = "accelerate"
    if (needed := NEEDS_WORD.get(program)) and (not rest or rest[0] != needed):
        return ""
    if kind == "srun" and not any(TRAINING.search(word) for word in rest):
        return ""  # an interactive shell, or anything else that is submitted
    return kind


def is_spawned(command: Sequence[str]) -> bool:
    """A child of multiprocessing's "spawn" method."""
    program, rest = program_of(command)
    return program == "-c" and bool(rest) and "multiprocessing.spawn" in rest[0] and "spawn_main" in rest[0]


def is_forkserver(command: Sequence[str]) -> bool:
    """The server of multiprocessing's "forkserver" method, and its children, which have the same command line."""
    program, rest = program_of(command)
    return program == "-c" and bool(rest) and "multiprocessing.forkserver" in rest[0]


def is_tracker(command: Sequence[str]) -> bool:
    """multiprocessing's resource tracker, or a process pool of torch's compiler: no data loader and no rank."""
    text = " ".join(command[:6])
    return "resource_tracker" in text or "compile_worker" in text or "semaphore_tracker" in text


def is_doctor(command: Sequence[str]) -> bool:
    """gpudoctor itself, one of its agents or children."""
    program, rest = program_of(command)
    if program in ("gpudoctor", "py-spy", "-m gpudoctor") or program.startswith("-m gpudoctor."):
        return True
    if program in ("srun", "ssh"):  # what carries its agents
        return any(base(word) == "gpudoctor" or "gpudoctor.fleet" in word for word in rest)
    return program == "-c" and bool(rest) and re.search(r"\bfrom gpudoctor[. ]", rest[0]) is not None


def names_ranks(command: Sequence[str]) -> bool:
    """Its own options tell a rank: a job that is started by hand, without variables."""
    return is_python(base(command[0]) if command else "") and (
        option(command, "rank") is not None
        or option(command, "world-size") is not None
        or option(command, "dist-url") is not None
        or option(command, "local-rank") is not None
        or option(command, "node-rank") is not None
    )


def option(command: Sequence[str], *names: str) -> str | None:
    """The value of an option, its last: "--name VALUE", "--name=VALUE"; "_" and "-" are the same. None without."""
    found = None
    wanted = {key(name) for name in names}
    for number, word in enumerate(command):
        if not word.startswith("-") or len(word) < 2:
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if key(name) not in wanted:
            continue
        if equals:
            found = value
        elif number + 1 < len(command) and not command[number + 1].startswith("--"):
            found = command[number + 1]
        else:
            found = ""
    return found


def has_option(command: Sequence[str], name: str) -> bool:
    return any(key(word.partition("=")[0]) == key(name) for word in command if word.startswith("-"))


def own_options(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a launcher up to the program that it starts, which has options of its own.

    An option that takes a value is told from a switch by what is known of torchrun and accelerate.
    """
    kind = launcher(command)
    if kind not in WITH_OPTIONS:
        return tuple(command)
    _, rest = program_of(command)
    words = list(rest)
    own: list[str] = []
    if words and words[0] in ("launch", "run"):
        words.pop(0)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word in ("--", "-"):
            break
        own.append(word)
        if "=" in word or is_switch(key(word)):
            continue
        if takes_next(words):
            own.append(words.pop(0))
    return tuple(own)


def program_started(command: Sequence[str]) -> str:
    """The name of the script that a launcher starts, or that a Python process runs; empty when it is not told."""
    if launcher(command) in WITH_OPTIONS:
        _, rest = program_of(command)
        words = list(rest)
        if words and words[0] in ("launch", "run"):
            words.pop(0)
        left = words[len(own_options(command)) :]
        if left and left[0] == "--":
            left = left[1:]
        return base(left[0]) if left else ""
    if launcher(command):
        return next((base(word) for word in command[1:] if word.endswith(".py")), "")
    program, _ = program_of(command)
    return "" if program == "-c" else program.removeprefix("-m ")


def same_program(one: Sequence[str], other: Sequence[str]) -> bool:
    """Both run the same script with the same arguments, whatever interpreter, flags and folder they name."""
    (mine, my_words), (theirs, their_words) = program_of(one), program_of(other)
    return bool(one) and mine == theirs and mine != "-c" and not is_python(mine) and list(my_words) == list(their_words)


def setting(command: Sequence[str], environment: Mapping[str, str], name: str) -> str | None:
    """What torchrun was told of an option: its own word, else PET_NAME of its environment. None: nothing."""
    found = option(own_options(command), name)
    return found if found is not None else environment.get("PET_" + name.upper().replace("-", "_"))


def recorded(words: Sequence[str], *, own: bool) -> tuple[str, ...]:
    """A command line as evidence holds it: of the reader's own process bounded, and without what is written as a
    secret; of another's only what `kept` leaves."""
    bounded = [word[:LONGEST_WORD].encode("utf-8", "backslashreplace").decode()[:LONGEST_WORD] for word in words]
    return tuple(_masked(bounded[:MOST_WORDS])) if own else kept(bounded)


def _masked(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        own = without_credentials(word)
        # "--api-key VALUE": the two belong together.
        if before.startswith("-") and without_credentials(f"{before} {word}") != f"{without_credentials(before)} {own}":
            own = HIDDEN
        yield own
        before = word


__all__ = [
    "LONGEST_WORD",
    "PYTHON",
    "SHELLS",
    "base",
    "has_option",
    "is_doctor",
    "is_forkserver",
    "is_python",
    "is_spawned",
    "is_tracker",
    "launcher",
    "names_ranks",
    "option",
    "own_options",
    "program_of",
    "program_started",
    "recorded",
    "same_program",
    "setting",
]
