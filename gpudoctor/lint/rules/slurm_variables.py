"""Rules of SLURM's variables that repeat an option: V11."""

import re
from collections.abc import Iterable, Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch, Span
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.rules.platform_names import reads

_REPEATS = {
    "SLURM_GPUS_PER_NODE": ("gpus-per-node", ("gres", "gpus", "gpus-per-task"), "SLURM_GPUS_ON_NODE"),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task", ("gres", "gpus", "gpus-per-node"), "SLURM_GPUS_ON_NODE"),
    "SLURM_GPUS": ("gpus", ("gres", "gpus-per-node", "gpus-per-task"), ""),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node", ("ntasks",), ""),
}
"""Variable -> the option that sets it, the others by which a header asks for the same, and what is set with all."""
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --{}\n"
    "srun torchrun --nnodes=2 --nproc-per-node={} --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d"
    " --rdzv-endpoint=$(hostname):29400 train.py\n"
)


@rule(
    "V11",
    title="A variable that repeats an option of SLURM is used with that option",
    source="sbatch(1), OUTPUT ENVIRONMENT VARIABLES: only set if the option is specified; cscs-docs#191,"
    " awsome-distributed-ai#71",
    bad=(
        _BATCH.format("gres=gpu:8", "$SLURM_GPUS_PER_NODE"),
        _BATCH.format("gpus-per-node=4", "$SLURM_GPUS_PER_TASK"),
        _BATCH.format("gres=gpu:8", "$GPUS").replace("srun", "GPUS=$SLURM_GPUS_PER_NODE\nsrun"),
        _BATCH.format("gres=gpu:8", "8").replace("srun", "export WORLD_SIZE=$((2 * SLURM_GPUS_PER_NODE))\nsrun"),
        _BATCH.format("gres=gpu:8", "8").replace("srun", '[ -z "$SLURM_GPUS" ] && exit 0\nsrun'),
    ),
    good=(
        _BATCH.format("gpus-per-node=8", "$SLURM_GPUS_PER_NODE"),
        _BATCH.format("gres=gpu:8", "$SLURM_GPUS_ON_NODE"),
        _BATCH.format("gres=gpu:8", "${SLURM_GPUS_PER_NODE:-8}"),
    ),
)
def repeats_no_option(job: LintJob) -> Iterator[LintFinding]:
    """SLURM_GPUS_PER_NODE is what --gpus-per-node was given, and is not set where the GPUs were asked for by --gres.
    A header that asks by another option leaves it empty."""
    if not job.is_batch:
        return
    yield from _ends_by_a_guard(job)
    seen: set[tuple[int, str]] = set()
    told: set[str] = set()
    for launch in (launch for lint_launch in job.launches for launch in (lint_launch, *lint_launch.around)):
        for option in launch.every_option:
            for origin in _origins(launch, option.value.expansions if option.value is not None else ()):
                left_empty = _left_empty(job, launch, origin)
                if left_empty is None or origin.span is None or (origin.span.start, origin.name) in seen:
                    continue
                seen.add((origin.span.start, origin.name))
                told.add(origin.name)
                wanted, other, instead = left_empty
                yield LintFinding(
                    span=origin.span,
                    summary=f"{option.written} is {origin.raw}, which SLURM sets with --{wanted} only; the header has"
                    f" --{other}",
                    happens=f"It is empty: {launch.entry or launch.launcher} ends at {option.written}, or takes the"
                    " next word for its value.",
                    fix=f"Write ${instead}, which is set by each of them." if instead
                    else f"Add #SBATCH --{wanted}=... to the header.",
                    edits=(Edit(origin.span, f"${instead}"),) if instead and origin.span.exact else (),
                )  # fmt: skip
    if job.has_unread_source or not job.launches:
        return
    for name, span in reads(job).items():
        left = _left_empty(job, job.launches[0], Expansion(name, f"${name}", None)) if name in _REPEATS else None
        if left is not None and name not in told and not _GUARD.search(job.text):
            yield LintFinding(
                span=span,
                summary=f"${name} is set by SLURM with --{left[0]} only; the header has --{left[1]}",
                happens="It is empty: a product is a syntax error of the shell, and an option swallows the next word.",
                fix=f"Write ${left[2]}, which is set by each of them." if left[2]
                else f"Add #SBATCH --{left[0]}=... to the header.",
            )  # fmt: skip


_GUARD = lazy_re(
    r"^[ \t]*(?:if )?\[\[? -z [\"']?(\$\{?(SLURM_\w+)\}?)[\"']? \]\]?\s*(?:&&|;?\s*then\b)[^#]{0,200}?\bexit\b",
    re.MULTILINE,
)


def _ends_by_a_guard(job: LintJob) -> Iterator[LintFinding]:
    """`[ -z "$SLURM_GPUS" ] && exit 0`: where the variable is never set nothing behind it is run."""
    for match in _GUARD.finditer(job.text):
        place = Span(match.start(1), match.end(1), job.text.count("\n", 0, match.start(1)) + 1)
        behind = next((launch for launch in job.launches if launch.invocation.span.start > match.end()), None)
        empty = Expansion(match[2], match[1], None)
        left = _left_empty(job, behind, empty) if behind is not None else None
        if left is not None:
            yield LintFinding(
                span=place,
                summary=f"{match[1]} is set with --{left[0]} only, and the header has --{left[1]}: the script ends",
                happens="The job ends before the training, as a success where the status is 0.",
                fix=f"Ask for ${left[2]}." if left[2] else f"Add #SBATCH --{left[0]}=..., or take the test out.",
            )


def _origins(launch: LintLaunch, expansions: Iterable[Expansion]) -> Iterator[Expansion]:
    """They, and what a variable of the script's own was set from: GPUS=$SLURM_GPUS_PER_NODE."""
    for expansion in expansions:
        setting = launch.invocation.settings.get(expansion.name)
        if setting is not None and expansion.default is None:
            yield from setting.word.expansions
        yield expansion


def _left_empty(job: LintJob, launch: LintLaunch, expansion: Expansion) -> tuple[str, str, str] | None:
    if (
        expansion.name not in _REPEATS
        or expansion.default is not None
        or expansion.value is not None
        or expansion.raw.startswith("${#")
    ):
        return None
    if expansion.name in launch.invocation.settings or expansion.name in job.facts.variables:
        return None
    wanted, others, instead = _REPEATS[expansion.name]
    given = {option.name for around in look.sruns(launch) for option in around.every_option}
    header = {name for name, option in job.sbatch.items() if not option.ignored}
    if wanted in header | given or (expansion.name == "SLURM_NTASKS_PER_NODE" and "tasks-per-node" in header):
        return None
    return next(((wanted, other, instead) for other in others if other in header), None)
