"""What a command line says a process is: a launcher, a child of multiprocessing, the doctor itself. Pure functions
over the words of /proc/PID/cmdline; the launchers' files say what the words mean.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache

from gpudoctor.launcher import registry
from gpudoctor.launcher.grammar import WordsRead
from gpudoctor.launcher.programs import FLAGS, PYTHON as INTERPRETER, python_runs
from gpudoctor.launcher.registry import Called, called
from gpudoctor.launcher.understand import understand
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Invocation, LintLaunch, SetVariable, Span, Word

MOST_WORDS = 256
NOWHERE = Span(0, 0, 0, exact=False)

SHELLS = frozenset(
    """
    sh bash dash zsh fish ksh tcsh csh ssh sshd sudo su tmux screen login systemd init slurmstepd slurmd orted prted
    orterun prterun timeout env nice nohup tini dumb-init
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Programs that have a rank's variables only to hand them on."""

PYTHON = lazy_re(r"python|^pt_|torchrun|deepspeed|accelerate|ray::|ipykernel|jupyter")
"""Names under which Python runs training; torch calls its own pt_main_thread, pt_elastic, pt_data_worker."""
TRAINING = lazy_re(r"python|torch|accelerate|deepspeed|lightning|train|nccl|\.py$|megatron|nemo", re.IGNORECASE)


def base(path: str) -> str:
    return path.rpartition("/")[2]


def key(name: str) -> str:
    """An option's name without its dashes; "_" and "-" are the same."""
    return name.lstrip("-").replace("_", "-")


def is_python(name: str) -> bool:
    return INTERPRETER.fullmatch(name.partition("-")[0]) is not None


def names_a_module(word: str) -> bool:
    """Whether this is Python's -m, alone or behind flags: "-um"."""
    return word == "-m" or (re.fullmatch(r"-[^-]*m", word) is not None and set(word[1:-1]) <= FLAGS)


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
    kind, at = python_runs(command)
    if kind == "code":
        return "-c", command[at:]
    if not kind:
        return name, ()
    return (f"-m {command[at]}" if kind == "module" else base(command[at])), command[at + 1 :]


@cache
def _more_modules() -> dict[str, str]:
    return {name: traits.runs_as for traits in registry.every() for name in traits.more_modules}


@cache
def process_names() -> frozenset[str]:
    """What launchers that are looked for call themselves."""
    known = [traits for traits in registry.every() if traits.runs_as]
    return frozenset(name for traits in known for name in (*traits.programs, *traits.process_names))


def runs_as(name: str, *, module: bool = False) -> str:
    """The kind of launcher that a program or module is, whatever follows it: "torchrun", ...; "" for none."""
    table = registry.first_words(module=module)
    return table[name].runs_as if name in table else _more_modules().get(name, "") if module else ""


def _called(command: Sequence[str]) -> tuple[Called | None, list[str]]:
    """The launcher that a command calls, and its words from the launcher's own on."""
    program, rest = program_of(command)
    module = program.startswith("-m ")
    words = [program.removeprefix("-m ") if module else program.removesuffix(".py"), *rest]
    return called(words, module=module), words


def launcher(command: Sequence[str]) -> str:
    """ "torchrun", "accelerate", "deepspeed", "srun" or "mpirun"; empty when it is none of them."""
    found, words = _called(command)
    kind = found.launcher.runs_as if found is not None else ""
    if found is None and program_of(command)[0].startswith("-m "):
        kind = _more_modules().get(words[0], "")
    if kind == "srun" and not any(TRAINING.search(word) for word in words[1:]):
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


OF_DOCTOR = ("/gpudoctor/run/relay.py", "/gpudoctor/workers")
"""Scripts of it that are started by their path."""


def is_doctor(command: Sequence[str]) -> bool:
    """gpudoctor itself, one of its agents or children."""
    program, rest = program_of(command)
    if program in ("gpudoctor", "py-spy", "-m gpudoctor") or program.startswith("-m gpudoctor."):
        return True
    if any(word.endswith(OF_DOCTOR) for word in command[1:4]):  # they have the environment of the rank that is attended
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
    given = None
    wanted = {key(name) for name in names}
    for number, word in enumerate(command):
        if not word.startswith("-") or len(word) < 2:
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if key(name) not in wanted:
            continue
        if equals:
            given = value
        elif number + 1 < len(command) and not command[number + 1].startswith("--"):
            given = command[number + 1]
        else:
            given = ""
    return given


def has_option(command: Sequence[str], name: str) -> bool:
    return any(key(word.partition("=")[0]) == key(name) for word in command if word.startswith("-"))


def as_word(text: str) -> Word:
    return Word(raw=text, text=text, shown=text, span=NOWHERE)


def launch_of(command: Sequence[str], environment: Mapping[str, str]) -> LintLaunch | None:
    """What a process was started with, as lint understands it; None when it is no start of training."""
    words = tuple(map(as_word, command))
    settings = {
        name: SetVariable(name, as_word(value), exported=True, how="env")
        for name, value in environment.items()
        if name.startswith(("PET_", "ACCELERATE_"))
    }
    program = base(command[0]) if command else ""
    return understand(Invocation(program=program, words=words, settings=settings, span=NOWHERE))


def _read(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words of a launcher with options of its own, and those of what it starts; None where it is none."""
    found, words = _called(command)
    if found is None or found.launcher.runs_as not in registry.rank_setters():
        return None
    read: WordsRead = found.form.grammar.read([as_word(word) for word in words], found.start)
    own = words[found.start : read.end]
    return tuple(own[:-1] if own[-1:] == ["--"] else own), tuple(words[read.end :])


def own_options(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a launcher up to the program that it starts, which has options of its own."""
    read = _read(command)
    return read[0] if read is not None else tuple(command)


def program_started(command: Sequence[str]) -> str:
    """The name of the script that a launcher starts, or that a Python process runs; empty when it is not told."""
    read = _read(command)
    if read is not None:
        return base(read[1][0]) if read[1] else ""
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
    given = option(own_options(command), name)
    return given if given is not None else environment.get("PET_" + name.upper().replace("-", "_"))
