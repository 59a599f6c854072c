"""Rules of how the lines of a batch script's header are written: S20 to S22."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.knowledge.schedulers.slurm_values import is_checked
from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launchers.slurm import SALLOC, SBATCH, SRUN
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation
from gpudoctor.lint.gaps import GAP
from gpudoctor.lint.model import LintJob, SbatchOption, Span
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import RANKED
from gpudoctor.lint.shell.sbatch import NO_OPTION, OPEN_QUOTE, options_of

_SHEBANG = lazy_re(r"(?:[ \t]*(?:#(?!!|SBATCH)[^\n]*)?\n)+(#![^\n]*)\n(?=(?:.*\n)*?#SBATCH )")
_HOURS = frozenset(("4", "8", "12", "16", "24", "36", "48", "72", "96", "120", "168"))
"""Plain numbers that people mean as hours: our own rule of thumb."""


@rule(
    "S20",
    title="sbatch knows the options of the header",
    source="measured with sbatch and srun 22.05: unrecognized option, is ambiguous, requires an argument, Invalid"
    " directive found in batch script; getopt_long(3)",
    bad=(
        RANKED.replace("--ntasks-per-node=1", "--ntasks_per_node=1"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=$NODES"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --node=2"),
        RANKED.replace("#SBATCH --nodes=2", '#SBATCH --nodes=2\n#SBATCH --output="%x-%j.txt'),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --time=2 days"),
        RANKED.replace("srun --cpus-per-task", "srun --cpu-per-task"),
        Example(RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --segment=2"), "slurm=22.05"),
        Example(RANKED.replace("srun --cpus-per-task", "srun --wait-for-children --cpus-per-task"), "slurm=24.11"),
    ),
    good=(
        RANKED,
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --image=registry/image:tag"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --comment=\"it's\" # don't"),
        RANKED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2 # of four GPUs\n#SBATCH --job=x --part a100"),
    ),
)
def sbatch_option_unknown(job: LintJob) -> Iterator[LintFinding]:
    """sbatch refuses an option that neither it nor a plugin of the site knows, a beginning that several options have,
    and words that are no options; and it expands no variable: the lines are comments to the shell."""
    for program, grammar, option in options_of_slurm(job):
        if gap_in(job, option):
            continue  # Q08 says so
        if not option.fault and option.known:
            if other := _of_another_release(job, grammar, option):
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} {other}; SLURM {job.facts.versions['slurm']} is used",
                    happens=f"{program}: unrecognized option '{option.written}': nothing starts.",
                    fix="Leave it out, or ask which SLURM the cluster has: sinfo --version.",
                )
            elif option.value is not None and VARIABLE.search(option.value):
                yield _not_expanded(program, option)
            continue
        refusal = _refused(program, grammar, option)
        if refusal is not None:
            yield LintFinding(
                span=option.span,
                summary=refusal[0],
                happens=f"{refusal[1]}: the job is not submitted."
                if program != "srun"
                else f"{refusal[1]}: nothing starts.",
                fix=refusal[2],
            )


def _of_another_release(job: LintJob, grammar: Grammar, option: SbatchOption) -> str:
    """ "came with slurm 24.05", where the release is told; empty where it has the option."""
    used, spec = job.facts.version("slurm"), grammar.find(option.written)
    if used is None or spec is None:
        return ""
    for told, came in ((spec.since, True), (spec.until, False)):
        release = tuple(int(part) for part in re.findall(r"\d+", told))
        if release and (used[:2] < release) is came:
            return f"came with {told}" if came else f"went with {told}"
    return ""


VARIABLE = lazy_re(r"\$\{?[A-Za-z_]")


def gap_in(job: LintJob, option: SbatchOption) -> bool:
    """Whether the line of an option in the header is not filled in."""
    start = job.text.rfind("\n", 0, option.span.start) + 1
    end = job.text.find("\n", option.span.start)
    line = job.text[start : end if end >= 0 else len(job.text)].partition(" #")[0]
    return line.lstrip().startswith("#SBATCH") and GAP.search(line) is not None


def _not_expanded(program: str, option: SbatchOption) -> LintFinding:
    value, refused = option.value or "", is_checked(option.name)
    return LintFinding(
        span=option.span,
        severity=None if refused else "warning",
        summary=f"{option.written} gets {value[:60]} as it stands: {program} expands no variable",
        happens=f"{program} refuses the value." if refused else "The dollar and the name are taken as they are.",
        fix=f"Write the value, or give it on the command line: sbatch {option.written}=... FILE.",
    )


def _refused(program: str, grammar: Grammar, option: SbatchOption) -> tuple[str, str, str] | None:
    """What is wrong with an option, what is said of it, and what to write; None where a plugin may know it."""
    written = option.written
    if option.fault == OPEN_QUOTE:
        return (
            f"the quote {option.value} of this #SBATCH line is not closed",
            f"{program}: fatal: Unmatched `{option.value}`",
            "Close it on this line, or take it away.",
        )
    if option.fault == NO_OPTION:
        shown = (option.value or "")[:60]
        return (
            f"{shown} stands between the options, and is none: a value has no blanks",
            f"{program}: error: Invalid directive found in batch script: {shown}",
            "Put a value with blanks in quotes, take the blank out, or put # before a remark.",
        )
    if option.fault == "needs a value":
        return f"{written} has no value", f"{program}: option '{written}' requires an argument", f"Write {written}=..."
    if option.fault == "takes no value":
        said = f"{program}: option '{written}' doesn't allow an argument"
        return f"{written} takes no value", said, f"Write {written} alone."
    fitting = grammar.fitting(written)
    if len(fitting) > 1:
        named = ", ".join(fitting[:6])
        said = f"{program}: option '{written}' is ambiguous"
        return f"{written} may mean {named}: {program} takes none of them", said, "Write the option in full."
    said = f"{program}: unrecognized option '{written}'"
    right = "--" + written.lstrip("-").replace("_", "-")
    known = [spelling for spec in grammar.options for spelling in spec.spellings if spelling.startswith("--")]
    if "_" in written and right in known:
        return f"{program} knows no {written}", said, f"Write {right}, with hyphens."
    if not written.startswith("--"):
        return (
            f"{program} has no option {written[:2]}",
            f"{program}: invalid option -- '{written[1:2]}'",
            "Write the long name of what is meant: options with one letter are case-sensitive.",
        )
    if near := nearest(right, known) or _OF_OTHERS.get(right, ""):
        return f"{program} knows no {written}; {near} is nearest", said, f"Write {near}, if that is meant."
    return None


_OF_OTHERS = {
    "--walltime": "--time", "--queue": "--partition", "--name": "--job-name", "--memory": "--mem",
    "--num-nodes": "--nodes", "--nnodes": "--nodes", "--cpus": "--cpus-per-task", "--ngpus": "--gpus-per-node",
    "--num-gpus": "--gpus-per-node", "--num-tasks": "--ntasks", "--np": "--ntasks", "--email": "--mail-user",
    "--workdir": "--chdir", "--working-dir": "--chdir", "--cwd": "--chdir", "--ppn": "--ntasks-per-node",
    "--gpus-on-node": "--gpus-per-node", "--stdout": "--output", "--stderr": "--error", "--log": "--output",
}  # fmt: skip
"""What other schedulers and launchers call the same."""


def options_of_slurm(job: LintJob) -> Iterator[tuple[str, Grammar, SbatchOption]]:
    """What sbatch reads of the header and of its command line, and the options of srun and salloc in the text."""
    for option in job.every_sbatch:
        if not option.ignored:
            yield "sbatch", SBATCH, option
    seen: set[int] = set()
    for invocation in job.invocations:
        grammar = {"srun": SRUN, "salloc": SALLOC}.get(invocation.program)
        if grammar is None or invocation.span.start in seen or not invocation.span.exact:
            continue
        seen.add(invocation.span.start)
        for option in options_of(invocation.words, grammar):
            # what a variable holds may be options of its own; a value that is not known says nothing
            yield invocation.program, grammar, option


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
    match = _SHEBANG.match(job.text.removeprefix("\ufeff"))
    if match is not None:
        line = job.text.count("\n", 0, match.start(1)) + 1
        yield LintFinding(
            span=Span(match.start(1), match.end(1), line),
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
