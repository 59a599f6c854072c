"""Rules of how the lines of a batch script's header are written: S20 to S22."""

import re
from collections.abc import Iterator

from gpudoctor.launchers.slurm import SBATCH
from gpudoctor.lint import allocation
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import RANKED

_KNOWN = {spelling.lstrip("-"): spelling for spec in SBATCH.options for spelling in spec.spellings}
_SHEBANG = re.compile(r"(?:[ \t]*(?:#(?!!|SBATCH)[^\n]*)?\n)+(#![^\n]*)\n(?=(?:.*\n)*?#SBATCH )")
_HOURS = frozenset(("4", "8", "12", "16", "24", "36", "48", "72", "96", "120", "168"))
"""Plain numbers that people mean as hours: our own rule of thumb."""


@rule(
    "S20",
    title="sbatch knows the options of the header",
    source="sbatch(1): options have hyphens; sbatch: unrecognized option",
    bad=(
        RANKED.replace("--ntasks-per-node=1", "--ntasks_per_node=1"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=$NODES"),
    ),
    good=(RANKED, RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --image=registry/image:tag")),
)
def sbatch_option_unknown(job: LintJob) -> Iterator[LintFinding]:
    """sbatch refuses an option that neither it nor a plugin of the site knows, and it expands no variable: the lines
    are comments to the shell."""
    for option in job.every_sbatch:
        if option.ignored or job.text[option.span.start : option.span.start + 1] != "-":
            continue
        written = job.text[option.span.start : option.span.end].partition("=")[0].split(" ")[0]
        right = written.lstrip("-").replace("_", "-")
        if not option.known and "_" in written and right in _KNOWN:
            yield LintFinding(
                span=option.span,
                summary=f"sbatch knows no {written}",
                happens=f"sbatch: unrecognized option '{written}': the job is not submitted.",
                fix=f"Write {_KNOWN[right]}, with hyphens.",
            )
        elif option.value is not None and re.search(r"\$\{?[A-Za-z_]", option.value) and option.known:
            number = option.name in (
                "nodes",
                "ntasks",
                "ntasks-per-node",
                "cpus-per-task",
                "gres",
                "gpus-per-node",
                "time",
            )
            yield LintFinding(
                span=option.span,
                severity=None if number else "warning",
                summary=f"{written} gets {option.value[:60]} as it stands: sbatch expands no variable",
                happens="sbatch refuses the value." if number else "The dollar and the name are taken as they are.",
                fix=f"Write the value, or give it on the command line: sbatch {written}=... FILE.",
            )


@rule(
    "S21",
    title="A batch script begins with #!",
    source="sbatch(1): This does not look like a batch script. The first line must start with #! followed by the path",
    bad=("\n" + RANKED, "# two nodes\n" + RANKED),
    good=(RANKED, RANKED + "#!/bin/bash\n"),
)
def batch_script_without_first_line(job: LintJob) -> Iterator[LintFinding]:
    """sbatch looks at the first two characters of the file, and refuses it where they are not #!."""
    if not job.is_batch or not job.sections or job.sections[0].start:
        return
    found = _SHEBANG.match(job.text.removeprefix("\ufeff"))
    if found is not None:
        line = job.text.count("\n", 0, found.start(1)) + 1
        yield LintFinding(
            span=Span(found.start(1), found.end(1), line),
            summary=f"#! stands in line {line}, and must be the first line",
            happens="sbatch: error: This does not look like a batch script. The job is not submitted.",
            fix="Move the line up, to the very begin of the file.",
        )


@rule(
    "S22",
    title="A time limit says its unit",
    severity="warning",
    source="sbatch(1): a plain number is minutes",
    bad=(
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --time=48"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH -t 24"),
    ),
    good=(
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --time=48:00:00"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --time=1440"),
    ),
)
def time_limit_in_minutes(job: LintJob) -> Iterator[LintFinding]:
    """--time=48 is 48 minutes. What was meant for hours ends with DUE TO TIME LIMIT before the first checkpoint."""
    option = allocation.in_force(job, "time")
    if option is None or option.value not in _HOURS:
        return
    yield LintFinding(
        span=option.span,
        summary=f"--time={option.value} is {option.value} minutes, and not hours",
        happens="SLURM ends the job at that time: CANCELLED ... DUE TO TIME LIMIT.",
        fix=f"Write --time={option.value}:00:00 for hours, or --time=00:{int(option.value) % 60:02}:00 for minutes.",
    )
