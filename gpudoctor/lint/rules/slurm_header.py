"""Rules of the batch script's header and of srun's own options: S06, S13, S14, S15, S19."""

import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, processes
from gpudoctor.lint.model import LintJob, SbatchOption, Span
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import ADDRESS, C10D, HEADER, LIGHTNING, PER_GPU, PLAIN, RANKED
from gpudoctor.severity import WORST_FIRST

_RESOURCES = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task",
    "cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu", "mem-per-gpu", "time", "partition", "array", "nodelist",
    "exclusive", "constraint", "account", "qos",
})  # fmt: skip
"""What a job cannot run as meant without; output files, names and mails are not."""
_REPEATS = ((22, 5), (23, 11))
"""The first Slurm in which srun does not inherit --cpus-per-task, and the first in which it does again."""


@rule(
    "S06",
    title="SLURM reads every #SBATCH line",
    source="measured with Slurm 22.05; sbatch(1); many threads",
    bad=(
        RANKED.replace("#SBATCH --gres", "#sbatch --gres"),
        "#!/bin/bash\nset -e\n" + RANKED.removeprefix("#!/bin/bash\n"),
        HEADER + "module load cuda\n#SBATCH --time=24:00:00\n" + ADDRESS + "srun --cpus-per-task=32 " + C10D + "\n",
    ),
    good=(
        RANKED,
        "#!/bin/bash\n# two nodes\n\n" + RANKED.removeprefix("#!/bin/bash\n"),
        RANKED.replace("#SBATCH --gres", "##SBATCH --partition=debug\n#SBATCH --gres"),
        RANKED.replace("#!/bin/bash\n", "#!/bin/bash\n#   sbatch --partition=small --gres=gpu:1 run.sh\n", 1),
        RANKED.replace("#SBATCH --", "#SBATCH--"),  # read all the same: measured with Slurm 22.05
    ),
)
def sbatch_line_ignored(job: LintJob) -> Iterator[LintFinding]:
    """sbatch reads lines that begin with `#SBATCH` exactly, up to the first command. What stands behind a command, or
    is spelled otherwise, is a comment, and sbatch says nothing of it."""
    after = _end_of_header(job)
    lines: set[int] = set()
    block: list[tuple[SbatchOption, LintFinding]] = []
    for option in job.every_sbatch:
        if not option.ignored:
            continue
        first = option.span.line not in lines
        lines.add(option.span.line)
        deliberate = "second #" in option.ignored or "blank" in option.ignored
        late = "after" in option.ignored
        same = allocation.in_force(job, option.name)
        repeated = same is not None and same.value == option.value
        severity = None
        if deliberate and _asks_gpus(option) and _wants_gpus(job):
            severity = "warning"
        elif deliberate or repeated:
            severity = "info"
        elif option.name not in _RESOURCES:
            severity = "warning"
        found = LintFinding(
            span=option.span,
            severity=severity,  # type: ignore[arg-type]
            summary=f"SLURM does not read {allocation.written(option)} ({option.ignored})",
            happens="The line is a comment: right, if that is what it is meant to be."
            if deliberate
            else "The same value is in force from another line."
            if repeated
            else "The job runs without it, by the cluster's default"
            + (f", and --{option.name}={same.value} of another line." if same is not None else "."),
            fix="Move it up, before the first command."
            if late
            else f"Write #SBATCH {allocation.written(option)} at the begin of the line, in capitals.",
            edits=_heeded(job, option, late, after) if first and not deliberate and not repeated else (),
        )
        if block and not (late and option.span.line - block[-1][0].span.line <= 1):
            yield _as_one(block)
            block = []
        block.append((option, found))
        if not late:
            yield _as_one(block)
            block = []
    if block:
        yield _as_one(block)


def _as_one(block: Sequence[tuple[SbatchOption, LintFinding]]) -> LintFinding:
    """A header behind a command is one trouble, told at its first line, as bad as its worst."""
    findings = [found for _, found in block]
    first = min(findings, key=lambda found: WORST_FIRST[found.severity or "error"])
    if len(block) == 1:
        return first
    names = ", ".join(allocation.written(option) for option, _ in block[:4]) + (", ..." if len(block) > 4 else "")
    return structs.replace(
        first,
        span=findings[0].span,
        summary=f"SLURM does not read these {len(block)} options ({names}): they stand {block[0][0].ignored}",
        happens=first.happens
        if first.severity == "info"
        else "The job runs without them, by the cluster's defaults and what other lines say.",
        fix="Move them up, before the first command.",
        edits=tuple(dict.fromkeys(edit for found in findings for edit in found.edits)),
    )


def _end_of_header(job: LintJob) -> int:
    """Behind the last line that SLURM reads."""
    end = job.text.find("\n") + 1 if job.text.startswith("#!") else 0
    last = max((option.span.end for option in job.every_sbatch if not option.ignored and option.span.exact), default=0)
    return max(end, job.text.find("\n", last) + 1) if last else end


def _heeded(job: LintJob, option: SbatchOption, late: bool, after: int) -> tuple[Edit, ...]:
    if not option.span.exact:
        return ()
    start = job.text.rfind("\n", 0, option.span.start) + 1
    end = job.text.find("\n", option.span.end)
    end = len(job.text) if end < 0 else end + 1
    line = job.text[start:end]
    match = re.match(r"[ \t]*#SBATCH\b", line, re.IGNORECASE)
    if match is None:
        return ()
    if not late:
        return (Edit(Span(start, start + match.end(), option.span.line), "#SBATCH"),)
    moved = "#SBATCH" + line[match.end() :].rstrip("\n") + "\n"
    if after > start:
        return ()
    return (Edit(Span(after, after, 1), moved), Edit(Span(start, end, option.span.line), ""))


def _asks_gpus(option: SbatchOption) -> bool:
    return option.name.startswith("gpus") or (option.name == "gres" and "gpu" in (option.value or ""))


def _wants_gpus(job: LintJob) -> bool:
    """Whether no line in force asks for GPUs, and several ranks are started."""
    asked = any(_asks_gpus(each) or each.name == "exclusive" for each in job.every_sbatch if not each.ignored)
    return not asked and any(
        (processes.per_node(job, launch) or 0) > 1 and not processes.on_cpu(launch)
        and not any(outer.option("gres", "gpus", "gpus-per-node", "gpus-per-task") for outer in launch.around)
        for launch in job.launches
    )  # fmt: skip


@rule(
    "S13",
    title="srun is told --cpus-per-task too",
    severity="info",
    needs="facts",
    source="Slurm's release notes 22.05 and 23.11; snakemake-executor-plugin-slurm#41",
    bad=(
        Example(RANKED.replace("srun --cpus-per-task=32 ", "srun "), "slurm=22.05"),
        PLAIN.replace("srun --cpus-per-task=8 ", "srun "),
    ),
    good=(RANKED, RANKED.replace("srun --cpus-per-task=32 ", "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nsrun "),
          Example(RANKED.replace("srun --cpus-per-task=32 ", "srun "), "slurm=23.11")),
)  # fmt: skip
def srun_drops_cpus_per_task(job: LintJob) -> Iterator[LintFinding]:
    """From Slurm 22.05 to 23.02 srun does not take --cpus-per-task over from the batch script: each task may use one
    CPU, and the data loaders share it."""
    header = allocation.in_force(job, "cpus-per-task")
    known = job.facts.version("slurm")
    cpus = allocation.whole(allocation.value_text(header))
    if header is None or cpus == 1 or (known is not None and not _REPEATS[0] <= known[:2] < _REPEATS[1]):
        return
    seen: set[int] = set()
    for launch in job.launches:
        srun, invocation = allocation.srun_of(launch), allocation.srun_invocation(launch)
        if srun is None or invocation is None or invocation.span.start in seen:
            continue
        if srun.option("cpus-per-task", "exclusive", "cpus-per-gpu") or "SRUN_CPUS_PER_TASK" in invocation.settings:
            continue
        seen.add(invocation.span.start)
        yield LintFinding(
            span=invocation.words[0].span,
            severity="warning" if known is not None else None,
            summary=f"srun is not told --cpus-per-task, which the header sets to {header.value}",
            happens="Slurm 22.05 to 23.02 then gives each task one CPU: slow data loaders, idle GPUs."
            + ("" if known is not None else " Other versions take it over."),
            fix="Repeat it: srun --cpus-per-task=$SLURM_CPUS_PER_TASK, which is right in every version.",
            edits=allocation.add_to_srun(launch, "--cpus-per-task=$SLURM_CPUS_PER_TASK"),
        )


@rule(
    "S14",
    title="A Lightning job under srun is not named bash or interactive",
    severity="warning",
    source="measured with Lightning 2.6.6; lightning/fabric/plugins/environments/slurm.py",
    bad=(
        LIGHTNING.replace("#SBATCH --nodes=2\n", "#SBATCH --nodes=2\n#SBATCH --job-name=interactive\n"),
        LIGHTNING.replace("#SBATCH --nodes=2\n", "#SBATCH --nodes=2\n#SBATCH -J bash\n"),
    ),
    good=(LIGHTNING, LIGHTNING.replace("#SBATCH --nodes=2\n", "#SBATCH --nodes=2\n#SBATCH -J bash-ddp\n")),
)
def interactive_job_name(job: LintJob) -> Iterator[LintFinding]:
    """Lightning takes a job named bash or interactive for a shell in which somebody types, and does not read SLURM's
    ranks there: every task starts processes of its own."""
    for launch in job.launches:
        if launch.launcher != "srun" or not lightning.is_lightning(job, launch):
            continue
        option = allocation.gives(job, launch, "job-name")
        if option is None or allocation.value_text(option) not in ("bash", "interactive"):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"The job is named {allocation.value_text(option)}: Lightning takes it for an interactive shell",
            happens="Lightning ignores SLURM's ranks, and every task that srun starts is a world of its own.",
            fix="Give the job another name.",
            edits=allocation.set_value(job, option, "train"),
        )
        return


@rule(
    "S15",
    title="srun ends the other tasks when one fails",
    severity="info",
    source="torchx and NeMo-Run start theirs so; srun(1)",
    leads_to=("rank-died",),
    bad=(RANKED, PLAIN),
    good=(RANKED.replace("srun ", "srun --kill-on-bad-exit=1 "), PLAIN.replace("srun ", "srun -K ")),
)
def srun_lets_survivors_wait(job: LintJob) -> Iterator[LintFinding]:
    """When a task fails, the others wait in their next collective. Without --kill-on-bad-exit they do so until a
    time-out or the end of the job, and the nodes are billed."""
    for launch in job.launches:
        srun, invocation = allocation.srun_of(launch), allocation.srun_invocation(launch)
        tasks = allocation.tasks(job, launch)
        if srun is None or invocation is None or tasks is None or tasks < 2:
            continue
        if srun.option("kill-on-bad-exit", "wait") or "SLURM_KILL_BAD_EXIT" in invocation.settings:
            continue
        yield LintFinding(
            span=invocation.words[0].span,
            summary=f"srun starts {tasks} tasks without --kill-on-bad-exit=1",
            happens="When one task fails, the others may wait in a collective until the job's time limit.",
            fix="Add --kill-on-bad-exit=1.",
            edits=allocation.add_to_srun(launch, "--kill-on-bad-exit=1"),
        )
        return


_PUBLIC = lazy_re(r"nvcr\.io|docker://|ghcr\.io|docker\.io|\bpytorch/pytorch")
"""Of images: registries whose images have no SLURM."""


@rule(
    "S19",
    title="scontrol and srun are asked outside of the container",
    severity="info",
    source="many threads",
    bad=(
        PER_GPU + "srun --container-image=nvcr.io/nvidia/pytorch:24.05-py3 bash -c 'export"
        ' MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1); python train.py\'\n',
        HEADER + "srun singularity exec --nv torch.sif bash -c 'scontrol show hostnames; python train.py'\n",
    ),
    good=(
        RANKED,
        HEADER + ADDRESS + "srun --cpus-per-task=32 singularity exec --nv torch.sif " + C10D + "\n",
    ),
)  # fmt: skip
def slurm_tools_inside_a_container(job: LintJob) -> Iterator[LintFinding]:
    """Images for training mostly have neither scontrol nor srun: what they should print is empty, and so is the address
    that is made of it."""
    for invocation in job.invocations:
        outer = [*invocation.within, invocation]
        contained = any(
            around.program in allocation.CONTAINERS
            or (around.program == "srun" and any(word.shown.startswith("--container-image") for word in around.words))
            for around in invocation.within
        )
        if not contained:
            continue
        texts = [word.raw for word in invocation.words]
        texts += [
            setting.word.raw
            for setting in invocation.settings.values()
            if setting.word.span.start > outer[0].span.start
        ]
        text = "\n".join(texts)
        for computed in {each.raw for around in outer[:-1] for word in around.words for each in word.expansions}:
            text = text.replace(computed, "")  # by the shell outside, before the container is there
        used = re.search(r"(?:^|\$\(|`)\s*(scontrol|sinfo|squeue|srun)\b", text, re.MULTILINE)
        if used is None:
            continue
        public = any(_PUBLIC.search(word.shown) for around in invocation.within for word in around.words)
        yield LintFinding(
            span=invocation.span,
            severity="warning" if public else None,  # a cluster's own image may bring SLURM along
            summary=f"{used[1]} is called inside a container; images mostly do not have it",
            happens="Its output is empty there, and an address made of it too: the rendezvous fails.",
            fix=f"Call {used[1]} in the batch script, export what it prints, and use the variable in the container.",
        )
        return
