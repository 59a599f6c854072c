"""Corrections that move a command into the shell of each task: `srun ... bash -c '...'`, or under srun at all."""

import re

from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span, Word
from gpudoctor.lint.rule import Edit

PER_TASK = ("SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID")
"""What differs between the tasks of a step; 0 in the batch shell."""
KEEPS_ITS_PLACE = ("exec", "time", "nohup", "command")
"""Words before a command that srun may follow."""


def first_word(launch: LintLaunch) -> Word | None:
    """The first word of what srun starts, or would start: of the program, or of the container around it."""
    within = launch.invocation.within
    behind = [outer.program for outer in within]
    start = len(behind) - behind[::-1].index("srun") if "srun" in behind else 0
    inner = [outer for outer in within[start:] if outer.program not in KEEPS_ITS_PLACE]
    words = inner[0].words if inner else launch.invocation.words
    return words[0] if words else None


def _stretch(launch: LintLaunch) -> tuple[int, int, int] | None:
    """Start, end and line of the command."""
    first, last = first_word(launch), launch.invocation.words[-1]
    if first is None or not first.span.exact or not last.span.exact or last.span.end <= first.span.start:
        return None
    return first.span.start, last.span.end, first.span.line


def wrapped(job: LintJob, launch: LintLaunch, before: str = "", prefix: str = "") -> tuple[Edit, ...]:
    """Put the command into `bash -c '...'`, in front of it `prefix` outside and `before` inside of the quotes; () where
    the text does not allow it."""
    stretch = _stretch(launch)
    if stretch is None or look.in_a_task_shell(launch):
        return ()
    start, end, line = stretch
    if "'" in job.text[start:end]:
        return ()
    opening = Edit(Span(start, start, line), f"{prefix}bash -c '{before}")
    return (opening, Edit(Span(end, end, line), "'"), *expanded_outside(job, launch, launch.invocation.words))


def expanded_outside(job: LintJob, launch: LintLaunch, words: tuple[Word, ...]) -> tuple[Edit, ...]:
    """Of a command that gets into single quotes: `'"$NAME"'` for what the batch shell knows and a task does not."""
    start, end = launch.invocation.words[0].span.start, launch.invocation.words[-1].span.end
    edits = []
    for word in words:
        for expansion in word.expansions:
            if expansion.span is None or not start <= expansion.span.start < end:
                continue
            piece = job.text[expansion.span.start : expansion.span.end]
            source = next((o.name for o in look.origins(word, launch.invocation) if o.name in PER_TASK), "")
            if expansion.name in PER_TASK or not piece.startswith("$"):
                continue
            if source and launch.invocation.settings.get(expansion.name) is not None:
                edits.append(Edit(expansion.span, f"${source}"))
            elif not _reaches_tasks(expansion.name, launch.invocation):
                edits.append(Edit(expansion.span, f"'\"{piece}\"'"))
    return tuple(edits)


def _reaches_tasks(name: str, invocation: Invocation) -> bool:
    """Whether a task has the variable too, with the same value."""
    if not name or name in ("RANDOM", "HOSTNAME", "HOST") or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return False
    setting = invocation.settings.get(name)
    return setting.exported if setting is not None else name.startswith("SLURM_")


def under_srun(job: LintJob, launch: LintLaunch, *options: str) -> tuple[Edit, ...]:
    """Start the command by srun, its rank variables expanded in the task."""
    line = " ".join(("srun", *options)) + " "
    if any(
        origin.name in PER_TASK and origin.where == "batch"
        for word in launch.invocation.words
        for origin in look.origins(word, launch.invocation)
    ):
        return wrapped(job, launch, prefix=line)
    first = first_word(launch)
    if first is None or not first.span.exact or first.span.end <= first.span.start:
        return ()
    return (Edit(Span(first.span.start, first.span.start, first.span.line), line),)


def one_task_per_node(job: LintJob, launch: LintLaunch) -> tuple[Edit, ...]:
    """Let srun start one task on each node, with all CPUs and GPUs that the tasks of a node had."""
    srun = allocation.srun_of(launch)
    if srun is None:
        return ()
    count, here = allocation.nodes(job, launch), allocation.tasks_per_node(job, launch)
    edits: list[Edit] = []
    done = False
    for name, value in (("ntasks-per-node", "1"), ("ntasks", str(count) if count else "")):
        option = allocation.gives(job, launch, name)
        if option is None:
            continue
        changed = allocation.set_value(job, option, value) if value else allocation.drop(job, option)
        if not changed:
            return ()
        edits += changed
        done = True
    for name in ("cpus-per-task", "gpus-per-task"):  # the one task gets what all of them had
        option = allocation.gives(job, launch, name)
        per_node = allocation.whole(allocation.value_text(option))
        if done and option is not None and per_node is not None and here:
            edits += allocation.set_value(job, option, str(per_node * here))
    return tuple(edits)
