"""Rules of what runs what in a shell text: Q03, Q04, Q06."""

import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.launcher import registry
from gpudoctor.launcher.grammar import over
from gpudoctor.launcher.programs import is_python
from gpudoctor.lint import look
from gpudoctor.lint.edits import remove
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span, Word
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.shell.wrappers import started

_ONE = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
_BATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python train.py{}\n"
_FLAGS = ("standalone", "multi-gpu")


@rule(
    "Q03",
    title="The launcher's options stand before the script",
    source="measured with torch 2.13: argparse.REMAINDER hands everything behind the script to it",
    bad=(
        "torchrun train.py --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234\n",
        "torchrun --nproc_per_node=4 train.py --lr 0.1 --nnodes 2\n",
        "accelerate launch train.py --num_processes 8 --multi_gpu\n",
    ),
    good=(
        _ONE,
        "torchrun --nproc-per-node=4 train.py --master-lr 2 --batch 4\n",
        _ONE.replace("train.py", "train.py --nnodes 2"),
    ),
)
def launcher_option_after_script(job: LintJob) -> Iterator[LintFinding]:
    """Everything behind the script's name goes to the script. The launcher starts with its defaults: one node and one
    process, without a word."""
    for launch in job.launches:
        kind = look.traits(launch)
        if not all(option.known for option in launch.every_option):
            continue  # the word behind an unknown one may be its value, and no script
        for name, span, text in _misplaced(launch):
            sure = name in kind.unmistakable
            if not sure and name not in kind.ambiguous:
                continue
            if launch.option(name) is not None or any(option.name.startswith(name) for option in launch.every_option):
                continue
            complete = launch.launcher in look.TORCHRUN and _complete_without(launch, name)
            script = launch.script
            movable = script is not None and script.span.exact and span.exact and not launch.module
            edits: tuple[Edit, ...] = ()
            if movable and script is not None:
                before = Span(script.span.start, script.span.start, script.span.line)
                edits = (Edit(before, text + " "), _taken(job.text, span))
            yield LintFinding(
                span=span,
                severity=None if sure and not complete else "warning",
                summary=f"{text[:60]} stands behind {script.shown if script else 'the script'}, which gets it",
                happens="The launcher has what it needs without it; the script may end with: unrecognized arguments."
                if complete
                else f"{launch.entry or launch.launcher} starts with its default instead, in silence (one node, one"
                " process), or the script ends with: unrecognized arguments.",
                fix=f"Write {text[:60]} before the script.",
                edits=edits,
            )


def _complete_without(launch: LintLaunch, name: str) -> bool:
    """torchrun starts as many nodes and processes as are meant without this option, and they meet."""
    if name in ("nproc-per-node", "nproc"):
        return False
    nodes = look.nnodes(launch)
    if look.standalone(launch) or nodes == (1, 1):
        return True
    if look.value(launch, "nnodes") is None:
        return False
    if look.is_dynamic(launch):
        return look.endpoint(launch) is not None
    static = ("node-rank", "master-addr")
    return look.is_static(launch) and all(look.value(launch, each) is not None for each in static)


def _misplaced(launch: LintLaunch) -> Iterator[tuple[str, Span, str]]:
    """Words behind the script that look like options: their canonical name, where they stand, and their text."""
    words = launch.script_words
    for index, word in enumerate(words):
        match = re.fullmatch(r"--([A-Za-z][\w-]*)(=.*)?", word.shown, re.DOTALL)
        if match is None:
            continue
        name = match[1].replace("_", "-")
        end: Word = word
        if match[2] is None and name not in _FLAGS and index + 1 < len(words):
            following = words[index + 1]
            end = word if following.shown.startswith("--") else following
        exact = word.span.exact and end.span.exact
        text = word.raw if end is word else f"{word.raw} {end.raw}"
        yield name, structs.replace(over(word.span, end.span), exact=exact and end.span.start >= word.span.start), text


def _taken(text: str, span: Span) -> Edit:
    """Take words out with the blanks in front of them."""
    start = span.start
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    return Edit(Span(start, span.end, span.line), "")


@rule(
    "Q04",
    title="The launcher comes first, then the script, without python between",
    source="measured with torch 2.13: can't open file 'python'; threads",
    bad=(
        "python train.py -m torch.distributed.launch --nproc_per_node=4\n",
        "torchrun --nproc_per_node=4 python train.py\n",
        "python torchrun --nproc_per_node=4 train.py\n",
        "accelerate launch --multi_gpu --num_processes 4 python train.py\n",
        "torchrun --nproc_per_node=4 deepspeed train.py --lr 1e-4\n",
    ),
    good=(
        _ONE,
        "torchrun --nproc_per_node=4 --no_python python train.py\n",
        "python -m torch.distributed.run --nproc_per_node=4 train.py\n",
        "python /opt/conda/bin/torchrun --nproc_per_node=4 train.py\n",
    ),
)
def launcher_and_script_swapped(job: LintJob) -> Iterator[LintFinding]:
    """`python -m torch.distributed.run` must stand before the script; and torchrun calls Python itself, so that the
    word python behind its options is taken for the script's name."""
    for launch in job.launches:
        words = launch.script_words
        if launch.launcher in ("python", "srun"):
            yield from _python_of_a_program(job, launch)
            at = next((index for index, word in enumerate(words[:-1]) if word.shown == "-m"), None)
            if at is None or not words[at + 1].shown.startswith(("torch.distributed.", "accelerate.commands")):
                continue
            name = launch.script.shown if launch.script else "SCRIPT"
            yield LintFinding(
                span=structs.replace(over(words[at].span, words[at + 1].span), exact=words[at].span.exact),
                summary=f"-m {words[at + 1].shown} stands behind {name}",
                happens="Python runs the script alone, as one process, and hands it these words.",
                fix=f"Write python -m {words[at + 1].shown} OPTIONS {name}.",
                edits=_forward(job, launch, at),
            )
        elif look.traits(launch).sets_ranks:
            script = launch.script
            if script is None or launch.module or launch.option("no-python"):
                continue
            another = script.shown in registry.starters()
            if not words or not (another or is_python(script)):
                continue
            if not another and not (words[0].shown.endswith(".py") or words[0].shown.startswith("-")):
                continue
            yield LintFinding(
                span=script.span,
                summary=f"{launch.entry or launch.launcher} is given {script.shown} for its script",
                happens=f"Every process ends with: can't open file '{script.shown}': No such file or directory.",
                fix=f"Leave {script.shown} out: the launcher calls Python itself.",
                edits=(remove(job.text, script.span),) if script.span.exact and words[0].shown.endswith(".py") else (),
            )


def _python_of_a_program(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """`python torchrun ...`: Python looks for a file torchrun in the folder it stands in."""
    script, words = launch.script, launch.invocation.words
    if script is None or launch.module or script.shown not in registry.first_words(module=False):
        return
    if not is_python(words[0]):
        return
    exact = words[0].span.exact and script.span.exact
    yield LintFinding(
        span=script.span,
        summary=f"Python is given {script.shown}, which is a program of its own",
        happens=f"It ends with: can't open file '{script.shown}': No such file or directory.",
        fix=f"Write {script.shown} without {words[0].shown} in front.",
        edits=(Edit(Span(words[0].span.start, script.span.start, words[0].span.line), ""),) if exact else (),
    )


def _forward(job: LintJob, launch: LintLaunch, at: int) -> tuple[Edit, ...]:
    """Move `-m torch.distributed...` and the launcher's options that follow in front of the script."""
    script, words = launch.script, launch.script_words[at:]
    if script is None or not all(word.span.exact for word in (script, *words)) or launch.module:
        return ()
    if any("\n" in job.text[script.span.start : word.span.end] for word in words[-1:]):
        return ()
    if not all(word.shown.startswith("-") and "=" in word.shown for word in words[2:]):
        return ()
    moved = job.text[words[0].span.start : words[-1].span.end]
    before = Span(script.span.start, script.span.start, script.span.line)
    return (
        Edit(before, moved + " "),
        _taken(job.text, Span(words[0].span.start, words[-1].span.end, words[0].span.line)),
    )


@rule(
    "Q10",
    title="A launcher is given a program to start",
    source="torch/distributed/run.py: training_script is required; srun: No command given to execute",
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234\ntrain.py\n",
        _BATCH.format("").replace("srun ", "srun --kill-on-bad-exit=1\n", 1),
        "apptainer exec --nv pt.sif\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(_BATCH.format(""), "torchrun --help\n", "torchrun $ARGS\n"),
)
def launcher_without_program(job: LintJob) -> Iterator[LintFinding]:
    """Often the line before lost its backslash: the launcher stands alone, and its program is a command of its own."""
    starts = {launch.invocation.span.start for launch in job.launches if launch.script is not None}
    for launch in job.launches:
        required = launch.launcher in (*look.TORCHRUN, "accelerate", "deepspeed", "torchx")
        ends_at_once = any(option.name in ("help", "version", "print-completion") for option in launch.every_option)
        given = launch.script is not None or launch.unread or launch.invocation.manifest_path
        if required and not given and not ends_at_once and launch.every_option:
            yield _alone(launch.invocation.span, launch.entry or launch.launcher)
    for invocation in job.invocations:
        starter = registry.starts_tasks(invocation.program, *(word.shown for word in invocation.words[1:3]))
        if starter is None or invocation.manifest_path or invocation.span.start in starts or len(invocation.words) < 2:
            continue
        read = starter.form.grammar.read(invocation.words, starter.start)
        asked = {option.name for option in read.options}
        if (
            read.end >= len(invocation.words)
            and not read.unread
            and not asked & {"help", "version", "usage", "multi-prog"}
        ):
            yield _alone(invocation.span, invocation.program)
    yield from (
        _alone(invocation.span, f"{invocation.program} exec")
        for invocation in job.invocations
        if _image_alone(invocation)
    )


def _image_alone(invocation: Invocation) -> bool:
    """`apptainer exec IMAGE`, and nothing behind it; a word of unknown value may hold the program too."""
    words = invocation.words
    if invocation.program not in ("singularity", "apptainer") or "exec" not in [word.shown for word in words[1:3]]:
        return False
    known = all(word.text is not None or word.quoted for word in words)
    return known and len(words) > 2 and started(words) is None


def _alone(span: Span, program: str) -> LintFinding:
    return LintFinding(
        span=span,
        summary=f"{program} is given no program to start",
        happens="It ends at once with a message about its arguments; the next line is a command of its own.",
        fix="End the line with a backslash where the program stands in the next one, or write the program.",
    )


@rule(
    "Q06",
    title="The launcher runs without sudo",
    severity="warning",
    source="sudo(8): the environment is reset, and PATH is secure_path; threads",
    bad=(
        "sudo torchrun --nproc-per-node=4 train.py\n",
        "sudo NCCL_DEBUG=INFO python -m torch.distributed.run --nproc-per-node=4 train.py\n",
    ),
    good=(
        "torchrun --nproc-per-node=4 train.py\n",
        'sudo -E env "PATH=$PATH" torchrun --nproc-per-node=4 train.py\n',
        "sudo docker run --gpus all image torchrun --nproc-per-node=4 train.py\n",
    ),
)
def sudo_before_launcher(job: LintJob) -> Iterator[LintFinding]:
    """sudo resets PATH and the environment: another Python than the one with torch, and no NCCL_, MASTER_ or CUDA_
    variables. Training needs no root."""
    for launch in job.launches:
        within = launch.invocation.within
        if not within or within[-1].program != "sudo":
            continue
        words = [word.shown for word in within[-1].words]
        kept = any(re.fullmatch(r"-[A-Za-z]*E[A-Za-z]*|--preserve-env(?:=.*)?", word) for word in words[:6])
        if kept or launch.invocation.words[0].shown.startswith("/"):
            continue
        start = within[-1].span
        span = Span(start.start, start.start + len("sudo"), start.line, start.exact)
        whole = job.text[span.start : span.end] == "sudo" and span.exact
        after = job.text[span.end :].lstrip(" \t")
        plain = bool(re.match(r"(?:\w+=|torchrun|python|accelerate|deepspeed)", after))
        yield LintFinding(
            span=span,
            summary=f"sudo before {launch.entry or launch.launcher}",
            happens="sudo resets PATH and the environment: another Python may run, without torch, and without the"
            " exported variables.",
            fix='Run it without sudo; where root is needed: sudo -E env "PATH=$PATH" ...',
            edits=(remove(job.text, span),) if whole and plain else (),
        )
