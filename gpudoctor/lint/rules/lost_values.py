"""Rules of values that the text gives, and that do not come to where they are read: V16 to V18, Q43, Q44."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Span, TextSection
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.rule import LintFinding, rule

_ONE = "torchrun --standalone --nproc-per-node=4 train.py --lr {}\n"
_CHILD = "#@ file job.sh\n#!/bin/bash\n" + _ONE.format("$LR")
_READS = "#@ file train.py\nimport os\nimport torch\nroot = os.environ['DATA_ROOT']\n"
_ASSIGNED = lazy_re(
    r"^(?P<before>[ \t]*(?:(?:export|local|declare(?: -\w+)?|readonly)[ \t]+)?)(?P<name>[A-Za-z_]\w*)\+?=", re.M
)
_NOT_SHELL = (".py", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ipynb")
_OFTEN_THERE = lazy_re(
    r"PATH|HOME|USER|PWD|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH|CUDA_\w+|CONDA_PREFIX|SCRATCH|WORK|HF_\w+|WANDB_\w+"
)
"""Of the environment of many users: exported before, and still so when a text sets it anew."""
_READ = lazy_re(r"(?:os\.)?environ\[\s*[\"'](\w+)[\"']\s*\](?!\s*=[^=])")


@rule(
    "V16",
    title="What the text sets is set where it is read",
    severity="warning",
    source="bash(1): a script that is started gets what is exported; local, a subshell and a pipe keep their variables;"
    " measured with bash 5.2",
    bad=(
        "LR=1e-4\nbash job.sh\n" + _CHILD,
        "#!/bin/bash\n" + _ONE.format("$LR") + "LR=1e-4\n",
        "#!/bin/bash\nsettings() {\n  local LR=1e-4\n}\nsettings\n" + _ONE.format("$LR"),
        "DATA_ROOT=/data\ntorchrun --standalone --nproc-per-node=4 train.py\n" + _READS,
    ),
    good=(
        "export LR=1e-4\nbash job.sh\n" + _CHILD,
        "LR=1e-4\n" + _ONE.format("$LR"),
        'if [ -n "$1" ]; then\n  LR=$1\nfi\n' + _ONE.format("$LR"),
        "export DATA_ROOT=/data\ntorchrun --standalone --nproc-per-node=4 train.py\n" + _READS,
        _ONE.format("${LR:-1e-4}") + "LR=2\n",
    ),
)
def value_does_not_arrive(job: LintJob) -> Iterator[LintFinding]:
    """A variable that this text sets itself is empty where it is read: it is set in another shell and not exported, or
    only later, or in a function of its own."""
    yield from _not_handed_on(job)
    if job.kind not in ("shell", "sbatch") or job.has_unread_source:
        return
    seen: set[str] = set()
    for launch in job.launches[: look.SIBLINGS]:
        for word in launch.invocation.words:
            for expansion in word.expansions:
                if expansion.name in seen or expansion.is_set is not False or expansion.default is not None:
                    continue
                place = _assigned(job, expansion.name)
                if place is None or _OFTEN_THERE.fullmatch(expansion.name) or expansion.span is None:
                    continue
                seen.add(expansion.name)
                yield LintFinding(
                    span=word.span,
                    summary=f"${expansion.name} is empty here: line {place} sets it, where this shell does not see it",
                    happens=f"{launch.entry or launch.launcher} and its program get nothing for it.",
                    fix=f"Write export {expansion.name}=... in front of what starts this, or hand it over.",
                )


def _assigned(job: LintJob, name: str) -> int | None:
    """The line where a shell of this text sets it; None where none does, or a loop, read or the like brings it."""
    if not name:
        return None
    other = re.compile(
        rf"\b(?:for|read|getopts|mapfile|readarray|select)\b[^\n;]*\b{re.escape(name)}\b|printf -v {re.escape(name)}\b"
    )
    found = None
    for section in job.sections:
        if section.name.endswith(_NOT_SHELL):
            continue
        if other.search(section.text):
            return None
        found = found or _line(section, name)
    return found


def _line(section: TextSection, name: str) -> int | None:
    for match in _ASSIGNED.finditer(section.text):
        rest = section.text[match.end() :].partition("\n")[0]
        if re.match(rf"[\"']?\$\{{?{name}\b", rest):
            continue  # from itself: it comes from outside
        if "<" not in rest and match["name"] == name and not re.match(r"\S*[ \t]+[\w./]", rest):
            # not `NAME=value command`, and no gap in brackets, which bash takes for a redirection
            return section.line + section.text.count("\n", 0, match.start())
    return None


def _not_handed_on(job: LintJob) -> Iterator[LintFinding]:
    """`NAME=value` on a line of its own, and os.environ["NAME"] in the program."""
    for code, launches in codes_and_starts(job):
        names = {match[1]: match.start() for match in _READ.finditer(code.text)}
        for launch in launches:
            for name in names:
                setting = launch.invocation.settings.get(name)
                set_there = re.search(
                    rf"environ(?:\.setdefault\(\s*|\[\s*)[\"']{name}[\"'](?:\s*,|\s*\]\s*=[^=])", code.text
                )
                if (
                    setting is None
                    or setting.exported
                    or setting.how != "assignment"
                    or set_there
                    or _OFTEN_THERE.fullmatch(name)
                ):
                    continue
                if re.search(rf"^[ \t]*export\b[^\n]*\b{name}\b|-x {name}\b|--export=\S*\b{name}\b", job.text, re.M):
                    continue
                yield LintFinding(
                    span=setting.word.span,
                    summary=f"{name} is set and not exported, and the program reads os.environ[{name!a}]",
                    happens=f"KeyError: {name!a} in every rank, unless it was exported before.",
                    fix=f"Write export {name}=...",
                )
                return


_NESTED = lazy_re(r"\"[^\"$`\\]*[ \t][^\"]*\"[^\s\"'$;&|()<>]+")
_TAIL = lazy_re(r"[^\"'\s]*\"[ \t][^\"]*\"")


@rule(
    "Q43",
    title="Double quotes inside of double quotes have a backslash",
    source="bash(1): the second double quote ends the string; measured with bash 5.2",
    bad=(
        'CMD="torchrun --standalone --nproc-per-node=4 train.py --name "my run" --lr 1e-4"\neval $CMD\n',
        'ARGS="--note "two words" --lr 1"\ntorchrun --standalone --nproc-per-node=4 train.py $ARGS\n',
    ),
    good=(
        'CMD="torchrun --standalone --nproc-per-node=4 train.py --name \\"my run\\" --lr 1e-4"\neval $CMD\n',
        'NAME="my run"\ntorchrun --standalone --nproc-per-node=4 train.py --name "$NAME"\n',
        'A="x y"z torchrun --standalone --nproc-per-node=4 train.py\n',
    ),
)
def quotes_within_quotes(job: LintJob) -> Iterator[LintFinding]:
    """The inner quote ends the outer one: what stands behind a blank is a command of its own, with the first part as a
    variable of its environment."""
    for invocation in job.invocations:
        tail = next((word for word in invocation.words if _TAIL.fullmatch(word.raw)), None)
        for setting in invocation.settings.values() if tail is not None else ():
            if setting.how == "prefix" and _NESTED.fullmatch(setting.word.raw):
                yield LintFinding(
                    span=setting.word.span,
                    summary=f"the string of {setting.name} ends at its second quote; {invocation.program} is a command",
                    happens=f"{invocation.program}: command not found; {setting.name} is not set behind this line.",
                    fix='Write \\" for the inner quotes, or an array: CMD=(torchrun ... --name "my run").',
                )


_JSON = lazy_re(r"(?:--?[\w-]+=)?\"[\[{]\s*\"[A-Za-z_]\w*\"\s*:[^\n]*")


@rule(
    "Q44",
    title="JSON on a command line stands in single quotes",
    severity="warning",
    source="bash(1): the quotes around a name end the outer ones; json: Expecting property name enclosed",
    bad=(
        'torchrun --standalone --nproc-per-node=4 train.py --model_kwargs "{"a": 1, "b": 2}"\n',
        'deepspeed --num_gpus 2 train.py --extra="{"lr": 1}"\n',
    ),
    good=(
        "torchrun --standalone --nproc-per-node=4 train.py --model_kwargs '{\"a\": 1}'\n",
        'torchrun --standalone --nproc-per-node=4 train.py --model_kwargs "{\\"a\\": 1}"\n',
    ),
)
def json_that_loses_its_quotes(job: LintJob) -> Iterator[LintFinding]:
    """The shell takes the inner double quotes away: the program gets {a: 1}, which is no JSON."""
    for launch in job.launches[: look.SIBLINGS]:
        for word in launch.invocation.words:
            if _JSON.fullmatch(word.raw) and '"' not in word.shown:
                yield LintFinding(
                    span=word.span,
                    summary=f"the program gets {word.shown[:60]}, for the shell takes the inner quotes away",
                    happens="json.loads: Expecting property name enclosed in double quotes.",
                    fix="Write it in single quotes: '{\"name\": value}'.",
                )


_EMPTY = r"(?:^|[\s;])(?:export |local )?{0}=(?:\"\"|'')?(?=[\s;]|$)"
_BARE = lazy_re(r"\$(?:(\w+)|\{(\w+)\})")


@rule(
    "V17",
    title="The value of an option is there on every way through the text",
    severity="warning",
    source="bash(1), Word splitting: an unquoted variable that is empty is no word; Python's argparse",
    bad=(
        "case $1 in\n  a) Q=fp8 ;;\n  b) Q= ;;\nesac\n" + _ONE.format("1 --quant $Q --steps 5"),
        'RESUME=""\nif [ -f last.pt ]; then RESUME=last.pt; fi\n' + _ONE.format("1 --resume ${RESUME}"),
    ),
    good=(
        'MORE=""\nif [ -f a ]; then MORE="--resume a"; fi\n' + _ONE.format("1 $MORE"),
        "case $1 in\n  a) Q=fp8 ;;\n  b) Q= ;;\nesac\n" + _ONE.format("1 ${Q:+--quant $Q}"),
        'NAME=""\nNAME=big\n' + _ONE.format("1 --name $NAME"),
        'Q=""\nif [ -z "$Q" ]; then Q=fp8; fi\n' + _ONE.format("1 --quant $Q"),
    ),
)
def option_without_its_value(job: LintJob) -> Iterator[LintFinding]:
    """Where a variable is empty, no word is left of it: the option takes the next one for its value, or has none."""
    said: set[str] = set()
    for launch in job.launches[: look.SIBLINGS]:
        for option, value in pairwise(launch.script_words):
            match = _BARE.fullmatch(value.raw)
            name = (match[1] or match[2]) if match is not None else ""
            if not name or name in said or value.quoted or not re.fullmatch(r"--\w[\w.-]*", option.shown):
                continue
            setting = launch.invocation.settings.get(name)
            empty = re.search(_EMPTY.format(name), job.text, re.MULTILINE)
            if empty is None or (setting is not None and setting.word.text):
                continue
            if re.search(rf"-[zn] [\"']?\$\{{?{name}\b|\$\{{{name}:", job.text):
                continue  # the text asks whether it is empty
            if re.search(rf"(?:^|[\s;]){name}=[\"']?(?:--?[a-z]|\$\{{?{name}\b)", job.text, re.MULTILINE):
                continue  # it holds options of its own, and the one before it is a flag; or a loop gathers it
            said.add(name)
            yield LintFinding(
                span=value.span,
                summary=f"${name} may be empty here (line {job.text.count(chr(10), 0, empty.end()) + 1}), and"
                f" {option.shown} is left without a value",
                happens="The program's parser refuses it (expected one argument), or takes the next word for it.",
                fix=f"Write ${{{name}:+{option.shown} ${name}}}, which is nothing where {name} is empty.",
            )


_ELEMENT = lazy_re(r"\$\{(\w+)\[\$?\{?SLURM_ARRAY_TASK_ID\}?\]\}")
_RANGE = lazy_re(r"(\d{1,4})-(\d{1,4})(?:%\d+)?|\d{1,4}")


@rule(
    "V18",
    title="A job array has an element of the list for each of its jobs",
    source="sbatch(1), --array; bash(1), Arrays: indices begin at 0, and an element that is not there is empty",
    bad=(
        "#!/bin/bash\n#SBATCH --array=1-2\nLRS=(1e-3 1e-4)\n" + _ONE.format("${LRS[$SLURM_ARRAY_TASK_ID]}"),
        "#!/bin/bash\n#SBATCH --array=0-3%2\nLRS=(1e-3 1e-4 1e-5)\n" + _ONE.format("${LRS[SLURM_ARRAY_TASK_ID]}"),
    ),
    good=(
        "#!/bin/bash\n#SBATCH --array=0-1\nLRS=(1e-3 1e-4)\n" + _ONE.format("${LRS[$SLURM_ARRAY_TASK_ID]}"),
        "#!/bin/bash\n#SBATCH --array=1-2\nLRS=(1e-3 1e-4)\n" + _ONE.format("${LRS[$SLURM_ARRAY_TASK_ID-1]}"),
        "#!/bin/bash\n#SBATCH --array=0-9\nLRS=($(cat lrs))\n" + _ONE.format("${LRS[$SLURM_ARRAY_TASK_ID]}"),
    ),
)
def element_beyond_the_list(job: LintJob) -> Iterator[LintFinding]:
    """The number of a job in its array is an index: beyond the list's end the value is empty."""
    option = job.sbatch.get("array")
    told = _RANGE.fullmatch(option.value.strip()) if option is not None and option.value else None
    if option is None or told is None:
        return
    last = int(told[2] or told[0])
    for match in _ELEMENT.finditer(job.text):
        made = re.findall(rf"^[ \t]*{match[1]}(\+?)=\(([^()$`*?\n]*)\)", job.text, re.MULTILINE)
        if len(made) != 1 or made[0][0] or re.search(rf"^[ \t]*{match[1]}(?:\+=|\[)", job.text, re.MULTILINE):
            continue
        try:
            count = len(shlex.split(made[0][1]))
        except ValueError:
            continue
        if 0 < count <= last and "{" not in made[0][1]:
            yield LintFinding(
                span=Span(match.start(), match.end(), job.text.count("\n", 0, match.start()) + 1),
                summary=f"the array goes to {last}, and {match[1]} has elements 0 to {count - 1}",
                happens=f"In job {last} the value is empty: an option has none there, or takes the next word.",
                fix=f"Write --array=0-{count - 1}.",
            )
            return
