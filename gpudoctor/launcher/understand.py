"""A command -> the start of training that it is, by the launchers' files.

`understand` is asked for every invocation of a text. What only starts another invocation (srun, mpirun, ssh, `bash -c`)
gives None: the inner invocation has it in `within` and becomes the launch.
"""

from collections.abc import Sequence

from msgspec import structs

from gpudoctor.launcher import programs, registry
from gpudoctor.launcher.grammar import WordsRead, over
from gpudoctor.launcher.programs import StartedByPython, is_python, is_script, name_of, started_by_python
from gpudoctor.launcher.registry import Called, called
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Invocation, LintLaunch, Span, Word

TOLD = lazy_re(r"--(?:gpus|devices|num[_-]nodes|strategy|distributed[_-]backend|local[_-]rank|dist[_-]url)(?:=.*)?")
"""What nobody tells a program that trains nothing."""
_PROGRAM_FILE = lazy_re(r".*/([\w.-]+)|[$`]\(?which ([\w.-]+)[)`]")


def understand(invocation: Invocation) -> LintLaunch | None:
    """The start of training that this is; None when it is none (`hostname`, `pip install`). Never raises.

    A python program under srun or mpirun is Launch(launcher="srun" or "mpirun"): `invocation` is the program's,
    `options` are those of srun or mpirun, and `around` holds what stands outside of that. Otherwise `around` holds
    every srun and mpirun around the launcher. `invocation` has no wrappers (poetry run, nsys profile): they are in its
    `within`.
    """
    if not invocation.words or any(map(_starts, invocation.within)):
        return None
    inner = _unwrapped(_in_image(invocation))
    words = inner.words
    if not words:
        return None
    program = name_of(words[0])
    known = called([program, *(word.shown for word in words[1:])])
    if known is not None and not known.launcher.bare:
        launch = _read(inner, known)
    elif program in registry.starters():
        return None  # `accelerate config`
    elif is_python(words[0]):
        launch = _python(inner)
    elif is_script(words[0]):
        launch = _plain(inner, StartedByPython(words[0], False, words[1:], 1))
    elif program.endswith("_perf"):  # nccl-tests: no training, but ranks all the same
        launch = _plain(inner, StartedByPython(words[0], False, words[1:], 1)) if _around(inner) else None
    elif (own := programs.console(words)) is not None:
        launch = _plain(inner, own)
    else:
        return None
    if launch is None or registry.traits(launch.launcher).bare:
        return launch
    return structs.replace(launch, around=_around(inner))


def _starts(outer: Invocation) -> bool:
    """Whether it is a launcher, whose program stands in its own words: `gcloud compute tpus tpu-vm ssh`, and not
    `gcloud compute ssh`."""
    words = [word.shown for word in outer.words]
    return outer.program in registry.starters() and registry.called([outer.program, *words[1:]]) is not None


def _in_image(invocation: Invocation) -> Invocation:
    """`docker run vllm/vllm-openai --model m`: the arguments of what the image starts."""
    outer, words = invocation.within[-1:], invocation.words
    if not words[0].shown.startswith("-") or not outer or outer[0].program not in ("docker", "podman", "nerdctl"):
        return invocation
    before = outer[0].words[: -len(words)]
    return with_entrypoint(invocation, before[-1].shown) if before else invocation


def with_entrypoint(invocation: Invocation, image: str) -> Invocation:
    """Arguments alone, behind the program that the image starts with them."""
    entry = programs.entrypoint_of(image)
    if not entry or not invocation.words or not invocation.words[0].shown.startswith("-"):
        return invocation
    span = structs.replace(invocation.words[0].span, exact=False)
    added = tuple(Word(raw="", text=word, shown=word, span=span) for word in entry)
    return structs.replace(invocation, program=entry[0], words=(*added, *invocation.words))


def with_command(launch: LintLaunch, words: tuple[Word, ...]) -> LintLaunch:
    """A launcher that is given a whole command, `python train.py`."""
    if words and is_python(words[0]):
        started = started_by_python(words)
        return structs.replace(launch, script=started.script, script_words=started.rest, module=started.module,
                               python_options=started.options)  # fmt: skip
    return structs.replace(launch, script=words[0] if words else None, script_words=words[1:])


def _read(invocation: Invocation, found: Called) -> LintLaunch | None:
    """The launch that these words of a launcher are."""
    form = found.form
    if form.read is not None:
        return form.read(form, invocation, found.start)
    read = form.grammar.read(invocation.words, found.start)
    launch = _launch(form.launcher, invocation, found.entry, read)
    if form.environment is not None:
        launch = structs.replace(launch, environment=form.environment(invocation.settings))
    rest = invocation.words[read.end :]
    if form.takes_command:
        return with_command(launch, rest)
    script, *others = rest or (None,)
    return structs.replace(launch, script=script, script_words=tuple(others), module="module" in read.last)


def _launch(launcher: str, invocation: Invocation, entry: str, read: WordsRead) -> LintLaunch:
    return LintLaunch(
        launcher=launcher,
        invocation=invocation,
        entry=entry,
        options=read.last,
        every_option=read.options,
        unread=(
            *read.unread,
            *(outer.words[0] for outer in invocation.within if outer.program in programs.ADD_OPTIONS),
        ),
    )


def _unwrapped(invocation: Invocation) -> Invocation:
    """Without `poetry run`, `nsys profile` and the like in front."""
    for _ in range(5):
        at = programs.wrapped(invocation.words, registry.starters())
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
    return structs.replace(over(words[0].span, words[-1].span), exact=words[0].span.exact)


def _around(invocation: Invocation) -> tuple[LintLaunch, ...]:
    """srun and mpirun around it, outermost first."""
    launches = []
    for outer in invocation.within:
        if (starter := registry.starts_tasks(outer.program, *(word.shown for word in outer.words[1:3]))) is not None:
            read = starter.form.grammar.read(outer.words, starter.start)
            launches.append(_launch(starter.form.launcher, outer, outer.program, read))
    return tuple(launches)


def _plain(invocation: Invocation, started: StartedByPython) -> LintLaunch | None:
    """A program that starts no ranks: alone, or one for each task of srun or mpirun."""
    ends_at_once = any(TOLD.fullmatch(word.shown) for word in started.rest)
    if started.script is None or not (ends_at_once or programs.trains(started.script, started.module)):
        return None
    around = _around(invocation)
    launch = around[-1] if around else LintLaunch(launcher="python", invocation=invocation, entry="python")
    return structs.replace(
        launch,
        invocation=invocation,
        around=around[:-1],
        script=started.script,
        script_words=started.rest,
        module=started.module,
        python_options=started.options,
    )


def _python(invocation: Invocation) -> LintLaunch | None:
    """`python ...`: a launcher's module, or the training itself."""
    words = invocation.words
    started = started_by_python(words)
    if started.script is not None:
        shown = [word.shown for word in words]
        at = started.index - 1
        if started.module:
            known = called(shown, at, module=True)
        else:  # python /opt/bin/torchrun, python $(which deepspeed)
            file = _PROGRAM_FILE.fullmatch(shown[at])
            known = called([file[1] or file[2] if file else "", *shown[at + 1 :]])
            known = known._replace(start=known.start + at) if known is not None else None
        if known is not None and not known.launcher.bare:
            launch = _read(invocation, known)
            return structs.replace(launch, python_options=started.options) if launch is not None else None
    return _plain(invocation, started)
