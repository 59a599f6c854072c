"""Programs that start another one: where its words begin, or which words are a shell text."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial

from msgspec import Struct, structs

from gpudoctor.launcher import registry
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.programs import is_python, is_script
from gpudoctor.launchers.slurm import SALLOC, SBATCH
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Option, Word
from gpudoctor.lint.shell.container_grammars import DOCKER_EXEC, DOCKER_RUN, SINGULARITY

SHELLS = ("bash", "sh", "dash", "zsh", "ksh", "ash")
ASSIGNMENT = lazy_re(r"[A-Za-z_]\w*=", re.ASCII)
SCRIPT = lazy_re(r"\.(?:sh|bash|sbatch|slurm)$")
DURATION = lazy_re(r"[\d.]+[smhd]?|\$.*")


class WhatStarts(Struct, frozen=True):
    """What a wrapper starts. Indexes are of its words."""

    at: int = -1
    """The first word of the command."""
    texts: tuple[int, ...] = ()
    """Words that, joined by blanks, a shell reads."""
    script: int = -1
    """A file that a shell reads."""
    reads_input: bool = False
    """A shell that reads its standard input."""
    arguments: int = -1
    """Where the arguments of what it reads begin: `bash -s -- 2 a.py`."""
    settings: tuple[int, ...] = ()
    """Words `NAME=value` that it sets for the command."""
    fresh: bool = False
    """The command does not get the variables: another machine or a container."""
    task: bool = False
    """Once for each task."""
    batch: bool = False
    """sbatch: as a batch script."""
    handed_on: tuple[int, ...] = ()
    """Words that name a variable which the command gets as it is: `docker run -e NAME`."""
    own_counts: bool = False
    """srun with numbers of nodes or tasks of its own: the job's do not hold in its tasks."""
    each: str = ""
    """It runs once for each of something that this stands for: "{}" of xargs."""
    at_once: bool = False
    """All of these side by side."""


def started(words: Sequence[Word]) -> WhatStarts | None:
    """What these words start; None when they start nothing that is known."""
    program = name(words[0])
    if program in SHELLS:
        return _shell(words)
    if words[0].text is None and not words[0].quoted and _MAYBE.fullmatch(words[0].raw) and len(words) > 2:
        return WhatStarts(at=1) if _is_command(words[1]) else None
    if (starter := registry.starts_tasks(program, *(word.shown for word in words[1:3]))) is not None:
        read = starter.form.grammar.read(words, starter.start)
        begun = _command(words, read.end, task=True)
        own = bool(_COUNTS & {option.name for option in read.options})
        named = {option.value.span for option in read.options if option.name == "x" and option.value is not None}
        settings = [at for at, word in enumerate(words) if word.span in named and ASSIGNMENT.match(word.shown)]
        return structs.replace(begun, own_counts=own, settings=tuple(settings)) if begun is not None else None
    reader = _TABLE.get(program)
    if reader is not None:
        return reader(words)
    if SCRIPT.search(program):
        return WhatStarts(script=0)
    options = _SIMPLE.get(program)
    if options is not None:
        return _command(words, _after_options(words, 1, options))
    return None


_MAYBE = lazy_re(r"\$\w+|\$\{\w+\}")
"""`$PROFILE python train.py`: a program in front, or nothing."""
_COUNTS = frozenset(("nodes", "ntasks", "ntasks-per-node", "nodelist", "np"))


def name(word: Word) -> str:
    return word.shown.rsplit("/", 1)[-1]


def _command(words: Sequence[Word], at: int, *, task: bool = False, fresh: bool = False) -> WhatStarts | None:
    return WhatStarts(at=at, task=task, fresh=fresh) if 0 < at < len(words) else None


def _after_options(words: Sequence[Word], at: int, with_value: str) -> int:
    """Behind the options; `with_value`: those whose value is the next word, with blanks around each."""
    while at < len(words):
        shown = words[at].shown
        if shown == "--":
            return at + 1
        if not shown.startswith("-") or shown == "-":
            return at
        at += 2 if f" {shown} " in f" {with_value} " else 1
    return at


def _shell(words: Sequence[Word]) -> WhatStarts | None:
    at = 1
    takes_text = False
    while at < len(words) and re.match(r"[-+]", words[at].shown):
        shown = words[at].shown
        if shown in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            at += 2
            continue
        at += 1
        if shown == "--":
            break
        if not shown.startswith("--"):
            takes_text = takes_text or "c" in shown
            if "s" in shown and not takes_text:
                return WhatStarts(reads_input=True, arguments=at + (at < len(words) and words[at].shown == "--"))
    if at >= len(words):
        return WhatStarts(reads_input=True)
    return WhatStarts(texts=(at,)) if takes_text else WhatStarts(script=at)


_SPLITS = ("-S", "-vS", "--split-string")
_ENV = ("-u", "--unset", "-C", "--chdir")
_SUDO = ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D", "-R", "-T", "--user", "--group")


def _behind_settings(words: Sequence[Word], valued: Collection[str], splits: Collection[str]) -> WhatStarts | None:
    """Options, of which `valued` take a word, and assignments in any order, then the program."""
    at = 1
    settings = []
    while at < len(words):
        shown = words[at].shown
        if ASSIGNMENT.match(shown):
            settings.append(at)
            at += 1
        elif shown in valued:
            at += 2
        elif shown in splits and at + 1 < len(words):
            return WhatStarts(texts=tuple(range(at + 1, len(words))), settings=tuple(settings))
        elif shown.startswith("-"):
            at += 1
        else:
            return WhatStarts(at=at, settings=tuple(settings))
    return None


def _timeout(words: Sequence[Word]) -> WhatStarts | None:
    at = _after_options(words, 1, "-s --signal -k --kill-after")
    return _command(words, at + 1 if at < len(words) and DURATION.fullmatch(words[at].shown) else at)


def _time(words: Sequence[Word]) -> WhatStarts | None:
    """The word of the shell, behind which assignments may stand, or the program."""
    at = _after_options(words, 1, "-o --output -f --format")
    first = at
    while at < len(words) and ASSIGNMENT.match(words[at].shown):
        at += 1
    return WhatStarts(at=at, settings=tuple(range(first, at))) if 0 < at < len(words) else None


def _xargs(words: Sequence[Word]) -> WhatStarts | None:
    """`xargs -P 0 -I {} ssh {} command`."""
    shown = [word.shown for word in words]
    at = _after_options(words, 1, "-a -d -E -I -L -n -P -s --max-args --max-procs --delimiter --arg-file --max-lines")
    sign = next(
        (shown[i + 1] if each == "-I" else each[2:] for i, each in enumerate(shown[:at]) if each[:2] == "-I"), "{}"
    )
    parallel = any(each.startswith(("-P", "--max-procs")) and each != "-P1" for each in shown[:at])
    return WhatStarts(at=at, each=sign, at_once=parallel) if at < len(words) else None


def _parallel(words: Sequence[Word]) -> WhatStarts | None:
    """GNU parallel: `parallel -j 4 ssh {} command ::: n0 n1`."""
    at = _after_options(words, 1, "-j --jobs -a --arg-file -S --sshlogin --delay -n -N --joblog --results --colsep -I")
    return WhatStarts(at=at, each="{", at_once=True) if at < len(words) and words[at].shown != ":::" else None


def _numactl(words: Sequence[Word]) -> WhatStarts | None:
    return _command(words, _after_options(words, 1, "-i -N -c -C -m -p -S -f -L -o -M"))


def _gpudoctor(words: Sequence[Word]) -> WhatStarts | None:
    """`gpudoctor run -- torchrun ...`."""
    if len(words) < 3 or words[1].shown != "run":
        return None
    return _command(words, _after_options(words, 2, "--report --preflight --stall --on-stall"))


def _taskset(words: Sequence[Word]) -> WhatStarts | None:
    at = _after_options(words, 1, "")
    return None if "-p" in [word.shown for word in words] else _command(words, at + 1)


def _ssh(words: Sequence[Word]) -> WhatStarts | None:
    at = _after_options(words, 1, "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B")
    at = _after_options(words, at + 1, "-p -l -o -i")
    if at >= len(words):
        return WhatStarts(reads_input=True, fresh=True) if at == len(words) and len(words) > 1 else None
    return WhatStarts(texts=tuple(range(at, len(words))), fresh=True)


def _pdsh(words: Sequence[Word]) -> WhatStarts | None:
    with_value = (
        "-w -x -g -X -f -t -u -l -R -M -c -C -F -S -a"
        if name(words[0]) == "pdsh"
        else "-w -x -g -X -f -t -u -l -n -o -O -H -h -p"
    )
    at = _after_options(words, 1, with_value)
    return WhatStarts(texts=tuple(range(at, len(words))), fresh=True) if at < len(words) else None


def _sbatch(words: Sequence[Word]) -> WhatStarts | None:
    for index, word in enumerate(words):
        if word.shown == "--wrap" and index + 1 < len(words):
            return WhatStarts(texts=(index + 1,), batch=True)
        if word.shown.startswith("--wrap="):
            return WhatStarts(texts=(index,), batch=True)
    at = SBATCH.read(words).end
    return WhatStarts(script=at, batch=True) if at < len(words) else WhatStarts(reads_input=True, batch=True)


def _salloc(words: Sequence[Word]) -> WhatStarts | None:
    return _command(words, SALLOC.read(words).end)


def _docker(words: Sequence[Word]) -> WhatStarts | None:
    verbs = [index for index, word in enumerate(words[1:4], 1) if word.shown in ("run", "exec")]
    if not verbs:
        return None
    grammar = DOCKER_RUN if words[verbs[0]].shown == "run" else DOCKER_EXEC
    return _container(words, verbs[0] + 1, grammar, fresh=True)


def _singularity(words: Sequence[Word]) -> WhatStarts | None:
    verbs = [index for index, word in enumerate(words[1:4], 1) if word.shown in ("exec", "run")]
    return _container(words, verbs[0] + 1, SINGULARITY, fresh=False) if verbs else None


def container_options(words: Sequence[Word], at: int, grammar: Grammar) -> tuple[list[Option], int]:
    """The options from `at` on, and where the image (of exec the container) stands."""
    options: list[Option] = []
    while at < len(words):
        word = words[at]
        if word.shown == "--":
            return options, at + 1
        if word.shown.startswith("-"):
            read, at = grammar.one(words, at)
            options += read
        elif word.text is None and at + 2 < len(words) and _HOLDS.fullmatch(word.raw.strip("\"'")):
            at += 1
        else:
            break
    return options, at


_HOLDS = lazy_re(
    r"\$\{?(?!\w*(?:im(?:age|g)|container|sif))\w*(?:arg|opt|flag|mount|bind|vol)\w*(?:\[[@*]\]|:?-)?\}?", re.I
)
"""A variable that holds options, by its name, and not the image."""


def _container(words: Sequence[Word], at: int, grammar: Grammar, *, fresh: bool) -> WhatStarts | None:
    """Options, the image, the command."""
    options, image = container_options(words, at, grammar)
    if image + 1 >= len(words):
        return None
    values = {option.value.span for option in options if option.name == "env" and option.value is not None}
    given = [index for index, word in enumerate(words[at:image], at) if word.span in values]
    return WhatStarts(
        at=image + 1,
        settings=tuple(index for index in given if ASSIGNMENT.match(words[index].shown)),
        handed_on=tuple(index for index in given if not ASSIGNMENT.match(words[index].shown)),
        fresh=fresh,
    )


def _charliecloud(words: Sequence[Word]) -> WhatStarts | None:
    """`ch-run [options] IMAGE [--] command`."""
    dashes = next((index for index, word in enumerate(words) if word.shown == "--"), 0)
    return _command(words, dashes + 1 if dashes else _after_options(words, 1, "-b -c -j -g -u") + 1)


def _enroot(words: Sequence[Word]) -> WhatStarts | None:
    """`enroot start [options] IMAGE command`."""
    if len(words) < 2 or words[1].shown != "start":
        return None
    return _command(words, _after_options(words, 2, "-c --conf -e --env -m --mount --rc") + 1)


def _shifter(words: Sequence[Word]) -> WhatStarts | None:
    """`shifter [options] command`: the image is an option, or stands in the header."""
    return _command(words, _after_options(words, 1, "-i --image -V --volume -m --module -e --env --env-file -w"))


def _after_dashes(words: Sequence[Word]) -> WhatStarts | None:
    """`kubectl exec POD -- command`, `oc rsh`."""
    at = next((index for index, word in enumerate(words) if word.shown == "--"), len(words)) + 1
    return _command(words, at, fresh=True) if len(words) > 1 and words[1].shown == "exec" else None


def _gcloud(words: Sequence[Word]) -> WhatStarts | None:
    """`gcloud compute ssh VM --command 'text'`, `gcloud compute tpus tpu-vm ssh`."""
    shown = [word.shown for word in words]
    if "ssh" not in shown[1:6]:
        return None
    for index, word in enumerate(shown):
        if word == "--command" and index + 1 < len(words):
            return WhatStarts(texts=(index + 1,), fresh=True)
        if word.startswith("--command="):
            return WhatStarts(texts=(index,), fresh=True)
    return None


def _eval(words: Sequence[Word]) -> WhatStarts | None:
    return WhatStarts(texts=tuple(range(1, len(words)))) if len(words) > 1 else None


def _tmux(words: Sequence[Word]) -> WhatStarts | None:
    """The last word is a shell's, when it is more than a name: `tmux new -d -s a 'torchrun ...'`."""
    if len(words) > 2 and words[1].shown in ("send-keys", "send"):
        texts = [index for index, word in enumerate(words) if index > 1 and " " in word.shown]
        return WhatStarts(texts=(texts[0],)) if texts else None
    last = len(words) - 1
    if last > 1 and " " in words[last].shown:
        return WhatStarts(texts=(last,))
    if last < 2 or words[1].shown not in ("new-session", "new", "new-window", "neww", "split-window"):
        return None
    return _command(words, _after_options(words, 2, "-s -n -c -e -t -x -y -F -f -l"))  # several words are no shell's


def _screen(words: Sequence[Word]) -> WhatStarts | None:
    return _command(words, _after_options(words, 1, "-S -dmS -DmS -c -e -h -p -s -t -T -dmLS"))


def _submitted(words: Sequence[Word]) -> WhatStarts | None:
    """A command that is handed to a scheduler or service: behind `--`, as an option's text, as the last word in quotes,
    or from the first word on that names Python, a script or a launcher."""
    shown = [word.shown for word in words]
    fresh = name(words[0]) not in _SAME_VARIABLES
    if "--" in shown[1:-1]:
        return _command(words, shown.index("--", 1) + 1, fresh=fresh)
    for index, word in enumerate(shown[1:], 1):
        option, equals, _ = word.partition("=")
        if option in _COMMAND_OPTIONS and (equals or index + 1 < len(words)):
            return WhatStarts(texts=(index if equals else index + 1,), fresh=fresh)
    if " " in shown[-1] and len(words) > 1 and _NAMES_COMMAND.match(shown[-1]):
        return WhatStarts(texts=(len(words) - 1,), fresh=fresh)
    begin = next((index for index, word in enumerate(words[1:], 1) if _is_command(word)), None)
    return _command(words, begin, fresh=fresh) if begin is not None else None


def starts_ranks(word: Word) -> bool:
    """Python or a launcher, by its name."""
    return is_python(word) or name(word) in registry.starters()


def _is_command(word: Word) -> bool:
    return is_python(word) or is_script(word) or name(word) in registry.starters() or name(word) in SHELLS


_COMMAND_OPTIONS = ("--command", "--cmd", "--commandline", "--run-command", "--entrypoint")
_SAME_VARIABLES = ("bsub", "blaunch", "oarsub", "hq")
"""What they start gets the variables of the shell; a service's container does not."""
_NAMES_COMMAND = lazy_re(
    r"(?:[A-Za-z_]\w*=\S*\s+)*(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|horovodrun|bash|sh|cd|srun|env"
    r"|source|export)\s"
)
_SUBMITTERS = (
    *("runai", "arena", "gantry", "beaker", "anyscale", "xpk", "ngc", "bcprun", "hq", "oarsub", "qsub", "bsub"),
    *("blaunch", "pbsdsh", "eai", "dsub", "sky"),
)
"""Of NVIDIA Run:ai, Base Command and NGC, Arena, AI2's Beaker, Anyscale, xpk, HyperQueue, OAR, PBS and LSF, dsub,
SkyPilot."""
_SIMPLE = {
    # program -> its options that take the next word
    "nohup": "", "setsid": "", "exec": "-a", "command": "", "builtin": "",
    "nice": "-n --adjustment", "ionice": "-c -n -t --class --classdata", "stdbuf": "-i -o -e --input --output --error",
    "unbuffer": "", "chronic": "", "catchsegv": "", "tini": "-e -p", "dumb-init": "", "xvfb-run": "-n -s -f -e -w -p",
    "strace": "-e -o -s -p", "script_run": "", "setarch": "", "prlimit": "", "then": "", "do": "",
}  # fmt: skip
_TABLE: dict[str, Callable[[Sequence[Word]], WhatStarts | None]] = {
    "env": partial(_behind_settings, valued=_ENV, splits=_SPLITS),
    "sudo": partial(_behind_settings, valued=_SUDO, splits=()),
    "timeout": _timeout, "gtimeout": _timeout, "numactl": _numactl, "taskset": _taskset,
    "ssh": _ssh, "pdsh": _pdsh, "clush": _pdsh, "dsh": _pdsh, "pssh": _pdsh, "parallel-ssh": _pdsh, "sbatch": _sbatch,
    "salloc": _salloc, "docker": _docker, "podman": _docker, "nerdctl": _docker,
    "podman-hpc": _docker, "ch-run": _charliecloud, "enroot": _enroot, "shifter": _shifter,
    "nvidia-docker": _docker, "singularity": _singularity, "apptainer": _singularity, "kubectl": _after_dashes,
    "gpudoctor": _gpudoctor, "time": _time, "xargs": _xargs, "parallel": _parallel,
    **dict.fromkeys(_SUBMITTERS, _submitted),
    "gcloud": _gcloud, "oc": _after_dashes, "eval": _eval, "tmux": _tmux, "screen": _screen,
}  # fmt: skip
