"""Gaps of instructions that nobody filled in: Q08."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.gaps import ANGLED, FIELD, GAP
from gpudoctor.lint.model import LintJob, LintLaunch, Option, Span, Word
from gpudoctor.lint.python_code import codes
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.shell_text import ADDRESSES, in_shell, line_end, line_of

_ONE = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
_MEANT = lazy_re(
    r"IP_?\d*|(?:MASTER|HEAD|MAIN|LEADER|SERVER|NODE_?\d*|HOST_?\d*|RANK_?0)_?(?:NODE_?)?(?:IP|ADDR|ADDRESS)(?:_ADDRESS)?"
    r"|YOUR[-_]\w+|your[-_]\w+|\w+_HERE|X{2,}|[xX]{1,3}(?:\.[xX]{1,3}){3}|\.{3}|\u2026|<[^<>]+>"
)
_NAMED = ("account", "partition", "qos", "reservation")
_OF_READER = lazy_re(
    r"(?i)your(?:[-_]\w+|(?:account|partition|project|allocation|group|queue)\w*)|\w+_here|(?:change|replace|fill)_?me"
)
_TOKENS = ("SIL", "PAD", "UNK", "BOS", "EOS", "SEP", "CLS", "MASK", "S")


@rule(
    "Q08",
    title="Placeholders of the instructions are filled in",
    source="threads; bash(1): <NAME> reads standard input from a file",
    bad=(
        _ONE.replace("10.20.0.11", "<IP>"),
        _ONE.replace("10.20.0.11", "MASTER_IP"),
        _ONE.replace("10.20.0.11", "xxx.xxx.xxx.xxx"),
        "torchrun --nproc-per-node=4 ... train.py\n",
        "#!/bin/bash\n#SBATCH -p { partition }\n" + _ONE,
        "#!/bin/bash\n#SBATCH --account=YOUR_ACCOUNT   # replace it\n#SBATCH --nodes=1\npython train.py\n",
    ),
    good=(
        _ONE, _ONE.replace("10.20.0.11", "n01"), _ONE.replace("train.py\n", "train.py < input.txt > log.txt\n"),
        "RUN = python -m torch.distributed.run --standalone\nhelp:\n\t@echo 'make <goal>'\nfit:\n\t$(RUN) train.py\n",
        "#!/bin/bash\n#SBATCH --account=yourcenter-lab\n#SBATCH --mail-user=your_name@uni.example\npython train.py\n",
        "#@ file submit.py\nimport subprocess\nhead = f'''#!/bin/bash\n#SBATCH -p {partition}\nsrun python t.py\n'''\n"
        "subprocess.run(['sbatch'], input=head)\n#@ every node\npython submit.py\n",
    ),
)  # fmt: skip
def placeholder_left(job: LintJob) -> Iterator[LintFinding]:
    """Instructions leave gaps for the reader: <IP>, MASTER_IP, xxx.xxx.xxx.xxx, three dots. The shell takes <IP> for
    the name of a file to read from; the others become names that do not resolve."""
    programs = {code.start for code in codes(job)}
    for section in job.sections:
        if section.start in programs:
            continue  # a program that writes batch scripts fills its gaps itself
        headers = list(re.finditer(r"^#SBATCH[ \t][^\n]*", section.text, re.MULTILINE))
        gaps = {match[0] for line in headers for match in GAP.finditer(line[0])}
        is_form = len(gaps) > 2 and not section.text.lstrip().startswith("#!")  # a script makes a job of it
        is_format = len([gap for gap in gaps if FIELD.fullmatch(gap)]) > 1  # and this one Python's str.format does
        for line in headers:
            if (gap := GAP.search(line[0].partition(" #")[0])) is not None:
                begin = section.start + line.start() + gap.start()
                yield LintFinding(
                    span=Span(begin, begin + len(gap[0]), line_of(job.text, begin)),
                    severity="info" if is_format else "warning" if is_form else None,
                    summary=f"{gap[0]} is a placeholder of the instructions that nobody filled in",
                    happens="sbatch takes it as it stands: it refuses the line, or finds no account of that name.",
                    fix="Write the real value in its place.",
                )
    for asked in job.every_sbatch:
        if not asked.ignored and asked.name in _NAMED and asked.value and _OF_READER.fullmatch(asked.value):
            yield LintFinding(
                span=asked.span,
                summary=f"--{asked.name}={asked.value}: a placeholder of the instructions that nobody filled in",
                happens=f"sbatch refuses the job where the cluster has no {asked.name} of that name.",
                fix="Write your own: sacctmgr -n show assoc user=$USER format=account,partition,qos tells them.",
            )
    for launch in job.launches:
        if in_shell(launch):
            yield from _angles(job, launch)
        for option in launch.every_option:
            value = option.value
            if option.name in ADDRESSES and value is not None and value.text is not None:
                host = look.split_endpoint(value.text)[0] if option.name == "rdzv-endpoint" else value.text
                if _MEANT.fullmatch(host):
                    yield _left(value, option, host)
        head = launch.invocation.settings.get("MASTER_ADDR")
        if head is not None and head.exported and head.word.text and _MEANT.fullmatch(head.word.text):
            yield _left(head.word, None, head.word.text)
        script = launch.script
        if script is not None and script.text in ("...", "\u2026"):
            yield _left(script, None, script.text or "...")


def _left(word: Word, option: Option | None, text: str) -> LintFinding:
    where = f"{option.written} is " if option is not None else ""
    return LintFinding(
        span=word.span,
        summary=f"{where}{text}: a placeholder of the instructions that nobody filled in",
        happens="It is taken as it stands: no host or file of that name is found.",
        fix="Write the real value, the same on every node: `hostname -I` on the head shows its addresses.",
    )


def _angles(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    whole = launch.invocation.span
    # Words that a variable brought stand where it is set: the lines between are not the command's.
    begin = job.text.rfind("\n", 0, max(whole.end - 1, 0)) + 1
    while begin > whole.start and job.text[begin - 2 : begin] == "\\\n":
        begin = job.text.rfind("\n", 0, begin - 1) + 1
    for match in ANGLED.finditer(job.text, max(begin, whole.start), line_end(job.text, whole.end)):
        quoted = job.text[max(match.start() - 1, 0)] in "\"'" and job.text[match.end() : match.end() + 1] in ("'", '"')
        if quoted and (re.fullmatch(r"[a-z]+", match[1]) or match[1] in _TOKENS):
            continue  # a token of a model: '<image>'
        yield LintFinding(
            span=Span(match.start(), match.end(), line_of(job.text, match.start())),
            summary=f"{match[0]} is a placeholder of the instructions that nobody filled in",
            happens=f"The shell reads <{match[1]} as the name of a file to read from, and ends with: No such file or"
            " directory.",
            fix="Write the real value in its place, without the signs < and >.",
        )
