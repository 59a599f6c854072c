"""One module a launcher: its table of options, and where the program begins.

`understand` is asked for every invocation of a text. What only starts another invocation (srun, mpirun, ssh, `bash -c`)
gives None: the inner invocation has it in `within` and becomes the launch.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from gpudoctor.lint.launchers import (
    accelerate,
    deepspeed,
    fabric,
    horovodrun,
    programs,
    ray,
    srun,
    torchrun,
    torchx,
    tpu,
)
from gpudoctor.lint.launchers.grammar import Grammar, Reading
from gpudoctor.lint.launchers.mpirun import MPIRUN
from gpudoctor.lint.launchers.mpirun import PROGRAMS as MPI_PROGRAMS
from gpudoctor.lint.launchers.programs import Started, is_python, is_script, name_of, started_by_python
from gpudoctor.lint.model import Invocation, Launch, Span, Word

TORCHRUN_PROGRAMS = ("torchrun", "torchrun.exe")
STARTERS = (
    *TORCHRUN_PROGRAMS,
    "accelerate",
    "accelerate-launch",
    *deepspeed.PROGRAMS,
    "horovodrun",
    "fabric",
    "lightning",
    "torchx",
    "tune",
    "composer",
    "colossalai",
    "ray",
    "gcloud",
)
_PROGRAM_FILE = re.compile(
    r".*/(torchrun|accelerate|deepspeed|horovodrun)|[$`]\(?which (torchrun|accelerate|deepspeed|horovodrun)[)`]"
)
_NO_TABLE = Grammar(())
STARTS_RANKS = (*TORCHRUN_PROGRAMS, "accelerate", "accelerate-launch", *deepspeed.PROGRAMS, "horovodrun")
"""What stands in `within` of a program that is no launch of its own."""


def understand(invocation: Invocation) -> Launch | None:
    """The start of training that this is; None when it is none (`hostname`, `pip install`). Never raises.

    A python program under srun or mpirun is Launch(launcher="srun" or "mpirun"): `invocation` is the program's,
    `options` are those of srun or mpirun, and `around` holds what stands outside of that. Otherwise `around` holds
    every srun and mpirun around the launcher. `invocation` has no wrappers (poetry run, nsys profile): they are in its
    `within`.
    """
    if not invocation.words or any(outer.program in STARTS_RANKS for outer in invocation.within):
        return None
    inner = _unwrapped(invocation)
    words = inner.words
    if not words:
        return None
    program = name_of(words[0])
    known = _PROGRAMS.get(program)
    if known is not None:
        launch = known(inner)
    elif is_python(words[0]):
        launch = _python(inner)
    elif is_script(words[0]):
        launch = _plain(inner, Started(words[0], False, words[1:], 1))
    elif program.endswith("_perf"):  # nccl-tests: no training, but ranks all the same
        launch = _plain(inner, Started(words[0], False, words[1:], 1)) if _around(inner) else None
    else:
        return None
    if launch is None or launch.launcher in ("srun", "mpirun"):
        return launch
    return structs.replace(launch, around=_around(inner))


def _unwrapped(invocation: Invocation) -> Invocation:
    """Without `poetry run`, `nsys profile` and the like in front."""
    for _ in range(5):
        at = programs.wrapped(invocation.words, STARTERS)
        if at is None:
            break
        wrapper, words = invocation.words[:at], invocation.words[at:]
        program = name_of(words[0])
        if words[0].shown == "-m":  # coverage run -m package: as `python -m package`
            python = structs.replace(invocation.words[0], text="python", shown="python")
            words, program = (python, *words), "python"
            return structs.replace(invocation, program=program, words=words)
        outer = structs.replace(invocation, words=wrapper, within=())
        invocation = structs.replace(
            invocation, program=program, words=words, within=(*invocation.within, outer), span=_span(words)
        )
    return invocation


def _span(words: Sequence[Word]) -> Span:
    return Span(words[0].span.start, words[-1].span.end, words[0].span.line, words[0].span.exact)


def _around(invocation: Invocation) -> tuple[Launch, ...]:
    """srun and mpirun around it, outermost first."""
    found = []
    for outer in invocation.within:
        if outer.program == "srun":
            read = srun.SRUN.read(outer.words)
            found.append(Launch(launcher="srun", invocation=outer, options=read.last, every_option=read.options,
                                entry="srun", unread=read.unread))  # fmt: skip
        elif outer.program in MPI_PROGRAMS:
            read = MPIRUN.read(outer.words)
            found.append(Launch(launcher="mpirun", invocation=outer, options=read.last, every_option=read.options,
                                entry=outer.program, unread=read.unread))  # fmt: skip
    return tuple(found)


def _plain(invocation: Invocation, started: Started) -> Launch | None:
    """A program that starts no ranks: alone, or one for each task of srun or mpirun."""
    if started.script is None or not programs.trains(started.script, started.module):
        return None
    around = _around(invocation)
    if not around:
        return Launch(launcher="python", invocation=invocation, script=started.script, script_words=started.rest,
                      module=started.module, python_options=started.options, entry="python")  # fmt: skip
    return structs.replace(
        around[-1],
        invocation=invocation,
        around=around[:-1],
        script=started.script,
        script_words=started.rest,
        module=started.module,
        python_options=started.options,
    )


def _python(invocation: Invocation) -> Launch | None:
    """`python ...`: a launcher's module, or the training itself."""
    started = started_by_python(invocation.words)
    if started.script is not None and started.module:
        reader = _MODULES.get(started.script.shown)
        if reader is not None:
            launch = reader(invocation, started.index, started.script.shown)
            return structs.replace(launch, python_options=started.options) if launch is not None else None
    program = _PROGRAM_FILE.fullmatch(started.script.shown) if started.script is not None else None
    if program is not None and not started.module:  # python /opt/bin/torchrun, python $(which deepspeed)
        behind = structs.replace(invocation, words=invocation.words[started.index - 1 :])
        launch = _PROGRAMS[program[1] or program[2]](behind)
        return structs.replace(launch, invocation=invocation, python_options=started.options) if launch else None
    return _plain(invocation, started)


def _with_script(launch: Launch, words: Sequence[Word], read: Reading) -> Launch:
    """A launcher that is given a script, or a module with -m."""
    rest = tuple(words[read.end :])
    return structs.replace(
        launch,
        options=read.last,
        every_option=read.options,
        unread=read.unread,
        script=rest[0] if rest else None,
        script_words=rest[1:],
        module="module" in read.last,
    )


def _with_command(launch: Launch, words: Sequence[Word], read: Reading) -> Launch:
    """A launcher that is given a whole command, `python train.py`."""
    rest = tuple(words[read.end :])
    launch = structs.replace(launch, options=read.last, every_option=read.options, unread=read.unread)
    return _of_command(launch, rest)


def _of_command(launch: Launch, rest: tuple[Word, ...]) -> Launch:
    if rest and is_python(rest[0]):
        started = started_by_python(rest)
        return structs.replace(launch, script=started.script, script_words=started.rest, module=started.module,
                               python_options=started.options)  # fmt: skip
    return structs.replace(launch, script=rest[0] if rest else None, script_words=rest[1:])


def _torchrun(invocation: Invocation, start: int = 1, entry: str = "torchrun") -> Launch:
    launch = Launch(launcher="torchrun", invocation=invocation, entry=entry,
                    environment=torchrun.of_environment(invocation.settings))  # fmt: skip
    return _with_script(launch, invocation.words, torchrun.TORCHRUN.read(invocation.words, start))


def _launch_module(invocation: Invocation, start: int, entry: str) -> Launch:
    launch = Launch(launcher="torch.distributed.launch", invocation=invocation, entry=entry,
                    environment=torchrun.of_environment(invocation.settings))  # fmt: skip
    return _with_script(launch, invocation.words, torchrun.LAUNCH.read(invocation.words, start))


def _accelerate(invocation: Invocation, start: int = 1, entry: str = "accelerate-launch") -> Launch | None:
    launch = Launch(launcher="accelerate", invocation=invocation, entry=entry)
    return _with_script(launch, invocation.words, accelerate.ACCELERATE.read(invocation.words, start))


def _deepspeed(invocation: Invocation, start: int = 1, entry: str = "deepspeed") -> Launch:
    launch = Launch(launcher="deepspeed", invocation=invocation, entry=entry)
    return _with_script(launch, invocation.words, deepspeed.DEEPSPEED.read(invocation.words, start))


def _horovodrun(invocation: Invocation, start: int = 1, entry: str = "horovodrun") -> Launch:
    launch = Launch(launcher="horovodrun", invocation=invocation, entry=entry)
    return _with_command(launch, invocation.words, horovodrun.HOROVODRUN.read(invocation.words, start))


def _fabric(invocation: Invocation, start: int = 1, entry: str = "fabric run") -> Launch:
    launch = Launch(launcher="fabric", invocation=invocation, entry=entry)
    return _with_script(launch, invocation.words, fabric.FABRIC.read(invocation.words, start))


def _xla_dist(invocation: Invocation, start: int, entry: str) -> Launch:
    launch = Launch(launcher="xla", invocation=invocation, entry=entry)
    return _with_command(launch, invocation.words, tpu.XLA_DIST.read(invocation.words, start))


def _after(words: tuple[Word, ...], *subcommands: str) -> int | None:
    """Where the words go on behind subcommands that must follow the program; None when they do not."""
    if tuple(word.shown for word in words[1 : 1 + len(subcommands)]) != subcommands:
        return None
    return 1 + len(subcommands)


def _accelerate_program(invocation: Invocation) -> Launch | None:
    start = _after(invocation.words, "launch")
    return _accelerate(invocation, start, "accelerate launch") if start is not None else None


def _fabric_program(invocation: Invocation) -> Launch | None:
    start = _after(invocation.words, "run")
    return _fabric(invocation, start, "fabric run") if start is not None else None


def _lightning_program(invocation: Invocation) -> Launch | None:
    start = _after(invocation.words, "run", "model") or _after(invocation.words, "run")
    return _fabric(invocation, start, "lightning run model") if start is not None else None


def _torchx_program(invocation: Invocation) -> Launch | None:
    words = invocation.words
    start = _after(words, "run")
    if start is None:
        return None
    outer = torchx.RUN.read(words, start)
    if outer.end >= len(words) or words[outer.end].shown not in torchx.COMPONENTS:
        return None
    read = torchx.COMPONENT.read(words, outer.end + 1)
    options = {**outer.last, **read.last}
    named = options.get("script") or options.get("m")
    rest = tuple(words[read.end :])
    if rest and rest[0].shown == "--":
        rest = rest[1:]
    return Launch(
        launcher="torchx",
        invocation=invocation,
        options=options,
        every_option=outer.options + read.options,
        script=named.value if named is not None else None,
        script_words=rest,
        module="script" not in options and "m" in options,
        entry=f"torchx run {words[outer.end].shown}",
        unread=outer.unread + read.unread,
    )


def _tune_program(invocation: Invocation) -> Launch | None:
    """torchtune: `tune run` takes torchrun's options, and a recipe for a script."""
    start = _after(invocation.words, "run")
    return _torchrun(invocation, start, "tune run") if start is not None else None


def _gcloud(invocation: Invocation) -> Launch | None:
    """`gcloud [alpha|beta] compute tpus tpu-vm ssh NAME --worker=all --command="..."`."""
    words = invocation.words
    shown = [word.shown for word in words]
    if "tpu-vm" not in shown or "ssh" not in shown[shown.index("tpu-vm") :]:
        return None
    at = shown.index("ssh", shown.index("tpu-vm")) + 1
    at += int(at < len(words) and not shown[at].startswith("-"))
    read = tpu.GCLOUD.read(words, at)
    command = read.last.get("command")
    if command is None or command.value is None:
        return None
    launch = Launch(launcher="xla", invocation=invocation, options=read.last, every_option=read.options,
                    entry="gcloud compute tpus tpu-vm ssh")  # fmt: skip
    inside = [piece for piece in _pieces(command.value) if not re.match(r"\w+=", piece.shown)]
    while inside and not (is_python(inside[0]) or is_script(inside[0])):
        inside.pop(0)  # cd, &&, source, nohup: what comes before the program
    return _of_command(launch, tuple(inside)) if inside else None


def _pieces(word: Word) -> list[Word]:
    """The words inside a quoted command, split at blanks; spans are exact where its quotes hold nothing special."""
    begin = word.raw.find(word.shown)
    found = []
    for match in re.finditer(r"[^\s;&|]+", word.shown):
        start = word.span.start + max(begin, 0) + match.start()
        span = Span(start, start + len(match[0]), word.span.line, word.span.exact and begin >= 0)
        if begin < 0:
            span = Span(word.span.start, word.span.end, word.span.line, False)
        text = match[0] if word.text is not None else None
        found.append(Word(raw=match[0], text=text, shown=match[0], span=span))
    return found


def _other(*subcommands: str, grammar: Grammar = _NO_TABLE) -> Callable[[Invocation], Launch | None]:
    """A launcher of which only the script is wanted."""

    def reader(invocation: Invocation) -> Launch | None:
        start = _after(invocation.words, *subcommands)
        if start is None:
            return None
        launch = Launch(launcher="other", invocation=invocation, entry=" ".join((invocation.program, *subcommands)))
        return _with_command(launch, invocation.words, grammar.read(invocation.words, start))

    return reader


_PROGRAMS: dict[str, Callable[[Invocation], Launch | None]] = {
    **dict.fromkeys(TORCHRUN_PROGRAMS, _torchrun),
    **dict.fromkeys(deepspeed.PROGRAMS, _deepspeed),
    "accelerate": _accelerate_program,
    "accelerate-launch": _accelerate,
    "horovodrun": _horovodrun,
    "fabric": _fabric_program,
    "lightning": _lightning_program,
    "torchx": _torchx_program,
    "tune": _tune_program,
    "gcloud": _gcloud,
    "composer": _other(),
    "colossalai": _other("run"),
    "ray": _other("job", "submit", grammar=ray.SUBMIT),
}
_MODULES: dict[str, Callable[[Invocation, int, str], Launch | None]] = {
    **dict.fromkeys(torchrun.RUN_MODULES, _torchrun),
    **dict.fromkeys(torchrun.LAUNCH_MODULES, _launch_module),
    **dict.fromkeys(accelerate.MODULES, _accelerate),
    **dict.fromkeys(deepspeed.MODULES, _deepspeed),
    **dict.fromkeys(horovodrun.MODULES, _horovodrun),
    **dict.fromkeys(fabric.MODULES, _fabric),
    **dict.fromkeys(tpu.XLA_MODULES, _xla_dist),
}
