"""What SLURM gives a launch: nodes, tasks a node, GPUs a node, and the GPUs that one task sees.

srun's own options win over those of the batch script, which it inherits as SLURM_* variables. Source: srun(1) and
sbatch(1) of Slurm 22.05; placements measured with two nodes of four GPUs each.
"""

import re

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.launch_settings import whole as whole
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Option, SbatchOption, Span, Word
from gpudoctor.lint.rule import Edit
from gpudoctor.lint.shell.source import FILLED_LATER

_OF_THE_HEADER = {
    "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes",
    "SLURM_NTASKS": "ntasks",
    "SLURM_NPROCS": "ntasks",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_GPUS_PER_NODE": "gpus-per-node",
}
"""Variables that repeat an option of the batch script."""
CONTAINERS = ("singularity", "apptainer", "docker", "podman", "enroot", "shifter", "charliecloud", "ch-run")


def srun_of(launch: LintLaunch) -> LintLaunch | None:
    """The innermost srun around a launch, with its options."""
    launches = look.sruns(launch)
    return launches[-1] if launches else None


def srun_invocation(launch: LintLaunch) -> Invocation | None:
    """The words of that srun."""
    return next((outer for outer in reversed(launch.invocation.within) if outer.program == "srun"), None)


def under_mpi(launch: LintLaunch) -> bool:
    return launch.launcher == "mpirun" or any(around.launcher == "mpirun" for around in launch.around)


def resolved(job: LintJob, word: Word | None) -> str | None:
    """A word's text; where it is one SLURM_* variable that repeats an option of the header, that option's value."""
    if word is None:
        return None
    if word.text is not None:
        return word.text
    bare = re.fullmatch(r"\$\{?([A-Z_]+)\}?", word.shown.strip("\"'"))
    option = in_force(job, _OF_THE_HEADER.get(bare[1], "")) if bare else None
    return option.value if option is not None else None


def in_force(job: LintJob, name: str) -> SbatchOption | None:
    """An option of the batch script that SLURM reads."""
    option = job.sbatch.get(name)
    return option if option is not None and not option.ignored else None


def asked(job: LintJob, launch: LintLaunch, name: str) -> str | None:
    """The value of an option as srun takes it: its own, else the header's. None: not given, or not known."""
    srun = srun_of(launch)
    own = srun.option(name) if srun is not None else None
    if own is not None:
        return resolved(job, own.value)
    header = look.header(job, launch, name)
    if header is None:
        outer = next(
            (invocation for invocation in reversed(launch.invocation.within) if invocation.program == "salloc"), None
        )
        return _of_salloc(outer, name) if outer is not None else None
    return header.value


def _of_salloc(outer: Invocation, name: str) -> str | None:
    """`salloc --gres=gpu:2 srun ...`."""
    for index, word in enumerate(outer.words):
        text = word.text or ""
        if text == f"--{name}" and index + 1 < len(outer.words):
            return outer.words[index + 1].text
        if text.startswith(f"--{name}="):
            return text.partition("=")[2]
    return None


def gives(job: LintJob, launch: LintLaunch, name: str) -> Option | SbatchOption | None:
    """The option itself, whatever its value."""
    srun = srun_of(launch)
    own = srun.option(name) if srun is not None else None
    return own if own is not None else look.header(job, launch, name)


def nodes(job: LintJob, launch: LintLaunch) -> int | None:
    """Nodes on which srun starts the launch; those of the header without srun."""
    if srun_of(launch) is not None:
        return look.srun_nodes(job, launch) or (None if gives(job, launch, "nodes") else _single(job, launch))
    return look.batch_nodes(job)


def _single(job: LintJob, launch: LintLaunch) -> int | None:
    """One node where a batch script names no number of nodes and no more than one task."""
    if gives(job, launch, "nodelist") is not None:
        return None
    per_node, tasks = whole(asked(job, launch, "ntasks-per-node")), whole(asked(job, launch, "ntasks"))
    if tasks is not None and per_node:
        return -(-tasks // per_node)
    return 1 if job.is_batch and gives(job, launch, "ntasks") is None else None


def tasks(job: LintJob, launch: LintLaunch) -> int | None:
    """Tasks that srun starts in all."""
    srun = srun_of(launch)
    if srun is None:
        return None
    own = srun.option("ntasks")
    if own is not None:
        return whole(resolved(job, own.value))
    per_node, count = tasks_per_node(job, launch), nodes(job, launch)
    header = whole(header_value(job, "ntasks"))
    if srun.option("ntasks-per-node") is None and srun.option("nodes") is None and header is not None:
        return header
    return per_node * count if per_node is not None and count is not None else None


def header_value(job: LintJob, name: str) -> str | None:
    option = in_force(job, name)
    return option.value if option is not None else None


def tasks_per_node(job: LintJob, launch: LintLaunch) -> int | None:
    """Tasks that srun starts on each node (on the fullest one, of an uneven split); None when it cannot be told."""
    srun = srun_of(launch)
    if srun is None:
        return None
    option = srun.option("ntasks")
    own = srun.option("ntasks-per-node")
    if option is not None:
        count = whole(resolved(job, option.value))
        return _spread(count, nodes(job, launch))
    if own is not None:
        return whole(resolved(job, own.value))
    if gives(job, launch, "ntasks-per-gpu") is not None or gives(job, launch, "ntasks-per-socket") is not None:
        return None
    header, total = (look.header(job, launch, name) for name in ("ntasks-per-node", "ntasks"))
    if total is not None:
        return _spread(whole(total.value), nodes(job, launch))
    if header is not None:
        return whole(header.value)
    if gives(job, launch, "gpus-per-task") is not None:
        return None  # SLURM computes the tasks of the GPUs, or sbatch's own line has to say them
    own_allocation = any(srun.option(each) for each in ("nodes", "partition", "gres", "gpus-per-node", "account"))
    return 1 if job.sbatch or own_allocation else None


def _spread(count: int | None, over: int | None) -> int | None:
    if count is None:
        return None
    if count == 1:
        return 1
    return -(-count // over) if over else None


_TYPE = lazy_re(r"[A-Za-z][\w.-]*")


def gpu_count(value: str | None, *, gres: bool = False) -> int | None:
    """GPUs in "4", "h100:4", or of a --gres "gpu:4", "gpu:a100:4", "gpu"; None when it names none."""
    total = None
    for part in (value or "").split(","):
        pieces = part.strip().removeprefix("gres:").split("(")[0].split(":")
        if gres and pieces[0].removeprefix("gres/") != "gpu":
            continue
        count = whole(pieces[-1])
        if count is None and len(pieces) < 2 + gres and _TYPE.fullmatch(pieces[-1]) and not FILLED_LATER.search(part):
            count = 1
        if count is not None:
            total = (total or 0) + count
    return total


def gpus_per_node(job: LintJob, launch: LintLaunch) -> int | None:
    """GPUs of each node that were asked of SLURM; None when none were, or when it cannot be told."""
    names = gpu_options(launch)
    for name in ("gpus-per-node", "gres"):
        count = gpu_count(asked(job, launch, name), gres=name == "gres") if name in names else None
        if count is not None:
            return count
    per_task = gpu_count(asked(job, launch, "gpus-per-task")) if "gpus-per-task" in names else None
    if per_task is not None:
        here = tasks_per_node(job, launch) if srun_of(launch) is not None else _header_tasks_per_node(job)
        return per_task * here if here is not None else None
    total, count = gpu_count(asked(job, launch, "gpus")) if "gpus" in names else None, nodes(job, launch)
    if total is not None and count and 0 < total < count:
        return 1  # some node has none
    return total // count if total is not None and count and total % count == 0 else None


def gpu_options(launch: LintLaunch) -> tuple[str, ...]:
    """The options that count GPUs for this launch: a step's own stand for those of the header, whatever their name."""
    names = ("gpus-per-node", "gres", "gpus-per-task", "gpus")
    srun = srun_of(launch)
    own = tuple(name for name in names if srun is not None and srun.option(name) is not None)
    return own or names


def _header_tasks_per_node(job: LintJob) -> int | None:
    """Tasks that the header asks for on each node, where it says so."""
    per_node, total = whole(header_value(job, "ntasks-per-node")), whole(header_value(job, "ntasks"))
    if per_node is not None or not job.is_batch:
        return per_node
    return _spread(total, look.batch_nodes(job) or 1)


def binds_gpus(job: LintJob, launch: LintLaunch) -> Option | SbatchOption | None:
    """The option by which each task gets only a part of the node's GPUs to see, --gpus-per-task aside."""
    for name in ("gpu-bind", "accel-bind"):
        option = gives(job, launch, name)
        text = value_text(option).lower()
        if option is None or "none" in text or (name == "accel-bind" and "g" not in text):
            continue
        return option
    return None


def sees_own_gpus_only(job: LintJob, launch: LintLaunch) -> int | None:
    """The GPUs that each task sees under --gpus-per-task; None where it sees all of the node."""
    bind = gives(job, launch, "gpu-bind")
    if bind is not None and "none" in value_text(bind).lower():
        return None
    per_task = gpu_count(asked(job, launch, "gpus-per-task"))
    if per_task is None and gives(job, launch, "ntasks-per-gpu") is not None:
        return 1
    return per_task


def value_text(option: Option | SbatchOption | None) -> str:
    """The option's value as written; empty when it has none."""
    if isinstance(option, Option):
        return option.value.shown if option.value is not None else ""
    return (option.value or "") if option is not None else ""


def written(option: Option | SbatchOption) -> str:
    """ "--gpus-per-task=1": the option as a message names it."""
    spelling = option.written if isinstance(option, Option) else f"--{option.name}"
    text = value_text(option)
    glue = "=" if spelling.startswith("--") else " "
    return f"{spelling}{glue}{text}" if text else spelling


def set_value(job: LintJob, option: Option | SbatchOption, value: str) -> tuple[Edit, ...]:
    """Another value for an option of srun or of the header."""
    if isinstance(option, Option):
        return (Edit(option.value.span, value),) if option.value is not None and option.value.span.exact else ()
    span = option.span
    piece = job.text[span.start : span.end]
    at = piece.rfind(option.value) if option.value else -1
    if at < 0 or not option.value or not span.exact:
        return ()
    start = span.start + at
    return (Edit(Span(start, start + len(option.value), span.line), value),)


def add_to_srun(launch: LintLaunch, *options: str) -> tuple[Edit, ...]:
    """More options for the srun around a launch."""
    invocation = srun_invocation(launch)
    if invocation is None or not invocation.words or not invocation.words[0].span.exact:
        return ()
    first = invocation.words[0].span
    return (Edit(Span(first.end, first.end, first.line), " " + " ".join(options)),)


def drop(job: LintJob, option: Option | SbatchOption) -> tuple[Edit, ...]:
    """Without the option: out of the srun line, or the whole line out of the header."""
    start, end, line = option.span.start, option.span.end, option.span.line
    if not option.span.exact:
        return ()
    if isinstance(option, Option):
        while start > 0 and job.text[start - 1] in " \t":
            start -= 1
        return (Edit(Span(start, end, line), ""),)
    start = job.text.rfind("\n", 0, start) + 1
    stop = job.text.find("\n", end)
    stop = len(job.text) if stop < 0 else stop + 1
    if len(re.findall(r"\s-{1,2}[A-Za-z]", job.text[start:stop])) > 1:
        return ()  # several options on one line
    return (Edit(Span(start, stop, line), ""),)
