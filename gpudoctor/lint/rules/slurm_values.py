"""Rules of the values in SLURM's header, and of options that contradict each other: S23, S24."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.schedulers.slurm_values import wanted_instead
from gpudoctor.launchers.slurm import SALLOC, SRUN
from gpudoctor.lint.allocation import gpu_count, whole
from gpudoctor.lint.gaps import FIELD
from gpudoctor.lint.model import LintJob, SbatchOption
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER, RANKED
from gpudoctor.lint.rules.slurm_lines import VARIABLE, gap_in, options_of_slurm
from gpudoctor.lint.shell.sbatch import options_of
from gpudoctor.lint.shell.source import FILLED_LATER

_NODES = "#SBATCH --nodes=2"
_UNITS = {"h": "{}:00:00", "hr": "{}:00:00", "hrs": "{}:00:00", "hours": "{}:00:00", "d": "{}-0", "days": "{}-0",
          "m": "{}", "min": "{}", "gi": "{}G", "gib": "{}G", "mi": "{}M", "mib": "{}M", "ti": "{}T"}  # fmt: skip
"""What people write behind a number, and how SLURM has it."""


@rule(
    "S23",
    title="Values of SLURM's options have the form that sbatch takes",
    source="measured with sbatch --test-only 22.05.8, each form; src/common/slurm_opt.c and proc_args.c",
    bad=(
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --time=24h"),
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --mem=64Gi"),
        RANKED.replace(_NODES, "#SBATCH -N=2"),
        RANKED.replace("--gres=gpu:4", "--gres=gpus:4"),
        RANKED.replace("srun ", "srun --ntasks-per-node=1x "),
    ),
    good=(
        RANKED.replace(_NODES, _NODES + "\n#SBATCH -t 2-12:00 --mem=64GB\n#SBATCH --signal=B:USR1@120"),
        RANKED.replace(_NODES, "#SBATCH -N2-2 --gpu-bind=none --mail-type=END,FAIL"),
        RANKED.replace("=2", "={{ nodes }}").replace("gpu:4", "gpu:{{ gpus }}"),
    ),
)
def slurm_value_malformed(job: LintJob) -> Iterator[LintFinding]:
    """sbatch and srun look at the form of counts, times, sizes, signals and of --gres before they ask the
    controller."""
    for program, _, option in options_of_slurm(job):
        if not option.known or option.fault or option.value is None or VARIABLE.search(option.value):
            continue
        if gap_in(job, option) or FILLED_LATER.search(option.value) or FIELD.fullmatch(option.value):
            continue  # Q08 says so
        at = option.span.end
        if re.search(r"#\w+#", job.text[max(0, at - 1) : at + 40].partition("\n")[0]):
            continue  # a gap of JUBE's, which it fills in before sbatch reads it
        wanted = wanted_instead(option.name, option.value)
        if option.value == "None" and option.name in _NO_NONE:
            wanted = wanted or "a name; None is what a program writes where it has nothing to write"
        if not wanted:
            continue
        better = _better(option)
        yield LintFinding(
            span=option.span,
            summary=f"{option.written} is {option.value[:60]!r}; {program} takes {wanted}",
            happens=f"{program} refuses the value, and "
            + ("nothing starts." if program == "srun" else "the job is not submitted."),
            fix=f"Write {option.written}{'=' if option.written.startswith('--') else ' '}{better}."
            if better
            else f"Write it as {wanted}.",
        )


_NO_NONE = frozenset(
    ("gres", "account", "partition", "qos", "reservation", "constraint", "nodelist", "exclude", "mail-user", "licenses")
)


def _better(option: SbatchOption) -> str:
    """The same in SLURM's form, where there is no doubt."""
    value = (option.value or "").strip()
    candidates = [value.lstrip("=:"), re.sub(r"^gpus\b", "gpu", value)]
    if unit := re.fullmatch(r"(\d{1,6}) ?([A-Za-z]{1,5})", value, re.ASCII):
        candidates.append(_UNITS.get(unit[2].lower(), "").format(unit[1]))
    return next(
        (
            candidate
            for candidate in candidates
            if candidate != value and candidate and not wanted_instead(option.name, candidate)
        ),
        "",
    )


@rule(
    "S24",
    title="Options of a batch script do not exclude each other",
    source="measured with sbatch --test-only 22.05.8: mutually exclusive, Failed to validate job spec",
    bad=(
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --mem=64G\n#SBATCH --mem-per-cpu=4G"),
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --gpus=4"),
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --ntasks-per-gpu=1"),
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --nodelist=n01,n02,n03"),
        RANKED.replace("srun ", "srun --mem=0 --mem-per-cpu=4G "),
        HEADER.replace("gres=gpu:4", "gpus-per-node=8") + "#SBATCH --gpus-per-task=3\nsrun python train.py\n",
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --nodes=1"),
    ),
    good=(
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --mem=64G\n#SBATCH --gpus=8"),
        RANKED.replace(_NODES, _NODES + "\n#SBATCH --nodelist=n[01-02]"),
        RANKED.replace("#SBATCH --cpus-per-task=32", "#SBATCH --gpus-per-task=4"),
    ),
)
def slurm_options_contradict(job: LintJob) -> Iterator[LintFinding]:
    """sbatch compares what was asked for: memory in two ways, GPUs in numbers that do not fit, more named hosts than
    nodes."""
    release = job.facts.version("slurm")
    given = {name: option for name, option in job.sbatch.items() if option.known and not option.fault}
    contradictions = [("sbatch", told) for told in (*_exclusive(given, release), *_gpus(given), *_hosts(given))][:3]
    steps = [invocation for invocation in job.invocations if invocation.program in ("srun", "salloc")]
    for invocation in {invocation.span: invocation for invocation in steps}.values():
        grammar = SRUN if invocation.program == "srun" else SALLOC
        own = {option.name: option for option in options_of(invocation.words, grammar) if option.known}
        contradictions += [(invocation.program, told) for told in _exclusive(own, release)][:1]
    yield from _twice(job)
    for program, (option, summary, said, fix) in contradictions[:3]:
        yield LintFinding(
            span=option.span,
            summary=summary,
            happens=f"{program}: {said}. {'The job is not submitted' if program == 'sbatch' else 'Nothing starts'}.",
            fix=fix,
        )


_COUNTED = (
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "gpus-per-node",
    "gpus",
    "gres",
    "cpus-per-task",
    "gpus-per-task",
    "time",
)


def _twice(job: LintJob) -> Iterator[LintFinding]:
    """The same option of a header with two values: the last one is taken. Of several scripts in one text, which a shell
    writes and submits, each has its own header."""
    first: dict[tuple[str, int], SbatchOption] = {}
    for option in job.every_sbatch if job.is_batch and "hetjob" not in job.text else ():
        if option.ignored or option.name not in _COUNTED or not option.span.exact or option.components:
            continue
        script = job.text.count("\n#!", 0, option.span.start)
        before = first.setdefault((option.name, script), option)
        if before.value != option.value:
            yield LintFinding(
                span=option.span,
                severity="warning",
                summary=f"{option.written} {option.value} here, and {before.value} in line {before.span.line}",
                happens=f"SLURM takes the last one alone: {option.value}.",
                fix="Take one of the two lines out.",
            )
            return


Told = tuple[SbatchOption, str, str, str]
_EXCLUSIVE = (
    ("mem", "mem-per-cpu", "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive"),
    ("mem", "mem-per-gpu", "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive"),
    ("mem-per-cpu", "mem-per-gpu", "fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive"),
    ("ntasks-per-gpu", "ntasks-per-node", "fatal: --ntasks-per-node is mutually exclusive with --ntasks-per-gpu"),
    ("ntasks-per-gpu", "gpus-per-task", "fatal: --gpus-per-task is mutually exclusive with --ntasks-per-gpu"),
    ("ntasks-per-gpu", "gpus-per-socket", "fatal: --gpus-per-socket is mutually exclusive with --ntasks-per-gpu"),
    ("ntasks-per-gpu", "tres-per-task", "fatal: --tres-per-task is mutually exclusive with --ntasks-per-gpu"),
    ("core-spec", "thread-spec", "fatal: -S/--core-spec and --thred-spec options are mutually exclusive"),
    ("bb", "bbf", "error: Cannot specify both --burst-buffer and --bbf"),
    ("quiet", "verbose", "error: don't specify both --verbose (-v) and --quiet (-Q)"),
    ("cpus-per-gpu", "cpus-per-task", "error: --cpus-per-gpu is mutually exclusive with --cpus-per-task"),
)
_EXCLUSIVE_SINCE = {
    ("exclusive", "oversubscribe"): (23, 2),
    ("gpus-per-node", "gres"): (26, 5),
}
"""By Slurm's CHANGELOG; where the release is not known nothing is said."""


def _exclusive(given: dict[str, SbatchOption], release: tuple[int, ...] | None) -> Iterator[Told]:
    for (one, other), since in _EXCLUSIVE_SINCE.items():
        of_gpus = other != "gres" or "gpu" in ((given[other].value or "") if other in given else "")
        if one in given and other in given and release is not None and release >= since and of_gpus:
            said = f"fatal: --{one} and --{other} are mutually exclusive"
            yield given[one], f"--{one} and --{other} exclude each other", said, "Keep one of the two."
    for one, other, said in _EXCLUSIVE:
        if one in given and other in given:
            yield given[one], f"--{one} and --{other} exclude each other", said, "Keep one of the two."


def _gpus(given: dict[str, SbatchOption]) -> Iterator[Told]:
    """The comparisons of select/cons_tres, in its order."""
    by_node = next((given[name] for name in ("gpus-per-node", "gres") if name in given), None)
    per_node = gpu_count(by_node.value, gres=by_node.name == "gres") if by_node is not None else None
    total, per_task = _number(given.get("gpus")), _number(given.get("gpus-per-task"))
    tasks, nodes = whole(_value(given.get("ntasks"))), whole(_value(given.get("nodes")))
    named = f"--{by_node.name}={by_node.value}" if by_node is not None else ""
    failed = "error: Failed to validate job spec"
    if total and per_node and by_node is not None:
        if total < per_node:
            yield (
                given["gpus"],
                f"--gpus={total} is less than {named}",
                "error: Failed to ensure --gpus >= " + named[: named.find("=")],
                f"--gpus counts those of all nodes: write {per_node * (nodes or 1)}, or leave it out.",
            )
        elif total % per_node:
            said = f"{failed}, --gpus is not multiple of --gres=gpu/--gpus-per-node"
            yield given["gpus"], f"--gpus={total} is no multiple of {named}", said, "Leave one of the two out."
        elif nodes and total // per_node != nodes:
            said = f"{failed}. Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({total // per_node})"
            fix = f"--gpus counts those of all nodes: write {per_node * nodes}, or leave it out."
            yield given["gpus"], f"--gpus={total} are not those of {nodes} nodes with {named}", said, fix
    if total and per_task and tasks and total != per_task * tasks:
        said = f"{failed}. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks"
        fix = f"Write --gpus={per_task * tasks}, or leave it out."
        yield given["gpus"], f"--gpus={total} are not {tasks} tasks times --gpus-per-task={per_task}", said, fix
    if per_node and per_task and per_node % per_task:
        said = f"{failed}, --gres=gpu/--gpus-per-node not multiple of --gpus-per-task"
        summary = f"{named} is no multiple of --gpus-per-task={per_task}"
        yield given["gpus-per-task"], summary, said, "Leave one of the two out, or take a divisor."


def _hosts(given: dict[str, SbatchOption]) -> Iterator[Told]:
    """--nodelist with more names than nodes."""
    listed, nodes = given.get("nodelist"), whole(_value(given.get("nodes")))
    names = _names(listed.value or "") if listed is not None else None
    if listed is not None and names and nodes and names > nodes:
        said = f"error: invalid number of nodes (-N {names}-{nodes})"
        yield listed, f"--nodelist names {names} hosts, and --nodes is {nodes}", said, f"Write --nodes={names}."


def _names(text: str) -> int | None:
    """Hosts in "a,b" or "n[01-03,7]"; None for what is neither."""
    count = 0
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"[\w.-]+(?:\[([\d,-]+)\])?", part, re.ASCII)
        if match is None:
            return None
        for piece in (match[1] or "0").split(","):
            limits = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", piece, re.ASCII)
            if limits is None:
                return None
            count += int(limits[2] or limits[1]) - int(limits[1]) + 1
    return count


def _number(option: SbatchOption | None) -> int | None:
    return gpu_count(option.value) if option is not None else None


def _value(option: SbatchOption | None) -> str | None:
    return option.value if option is not None else None
