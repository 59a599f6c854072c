"""Rules of small words that bash reads otherwise: Q18."""

import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_IF = r"^[ \t]*(?:if|elif|while|until)[ \t]+(?:![ \t]+)?"


@rule(
    "Q18",
    title="Small words of bash are written as bash has them",
    source="bash(1): [ is a command; (( )) with 0 is false; a quoted ~ is a letter; measured with bash 5.2",
    bad=(
        'if ["$NODES" = 2 ]; then N=4; fi\n' + _ONE,
        'if [ "$NODES" -gt 1]; then N=4; fi\n' + _ONE,
        "set -e\ni=0\n((i++))\n" + _ONE,
        'torchrun --standalone --nproc-per-node=4 "~/project/train.py"\n',
    ),
    good=(
        'if [ "$NODES" = 2 ]; then N=4; fi\n' + _ONE,
        "set -e\ni=0\n((i++)) || true\n" + _ONE,
        "torchrun --standalone --nproc-per-node=4 ~/project/train.py\n",
    ),
)
def small_word_of_bash(job: LintJob) -> Iterator[LintFinding]:
    """`["$X"` is a command of that name; `((i++))` with i=0 is false, which ends a script under set -e; in quotes ~ is
    no home folder."""
    if job.kind in ("shell", "sbatch"):
        yield from _in_text(job)
    for launch in job.launches:
        script = launch.script
        if script is not None and script.raw.startswith(('"~/', "'~/")):
            yield LintFinding(
                span=script.span,
                summary=f"{script.raw[:60]} begins with ~ in quotes, which is no home folder",
                happens="can't open file: No such file or directory.",
                fix="Write $HOME/..., or leave the quotes out.",
            )


_BLANKS = "Write [ and ] with blanks on both sides."
_WORDS = (
    (
        lazy_re(_IF + r"(\[\[?[\"$][^\s\]]*)", re.MULTILINE),
        "{}: behind [ a blank is missing",
        "bash: command not found, and the condition is false.",
        _BLANKS,
    ),
    (
        lazy_re(
            _IF + r"\[[ \t][^\[\]'`;&|\n]{1,200}([^\s\[\]'`;&|]\])[ \t]*(?:;|&&|\|\||$)",
            re.MULTILINE,
        ),
        "{}: in front of ] a blank is missing",
        "bash: [: missing `]', and the condition is false.",
        _BLANKS,
    ),
    (
        lazy_re(
            r"(?:^|&&|;)[ \t]*((?:export[ \t]+\w+=|cd[ \t]+|source[ \t]+|conda[ \t]+activate[ \t]+)[^\s&|;]+)"
            r"[ \t]*&(?![&>])[ \t]*\S",
            re.MULTILINE,
        ),
        "`{} &` runs in a shell of its own, in the background",
        "What it sets or where it goes is not so in the commands behind it.",
        "Write && in the place of &.",
    ),
    (
        lazy_re(r"((?:`|\$\()[ \t]*expr[ \t]+[\w${}]+\\?[*+/-][\w${}]+[ \t]*[`)])"),
        "{}: expr wants blanks around its operators, and gives the text back as it is",
        "The value is no number.",
        "Write $((...)).",
    ),
)
"""What is written, what is said of it, what comes of it, what to write."""
_STEP = lazy_re(r"^[ \t]*(\(\((\w+)\+\+\)\)|let[ \t]+[\"']?(\w+)\+\+[\"']?)[ \t]*$", re.MULTILINE)


def _in_text(job: LintJob) -> Iterator[LintFinding]:
    for section in job.sections:
        if section.kind == "file" and not section.name.endswith((".sh", ".bash")):
            continue
        text = section.text
        for pattern, summary, happens, fix in _WORDS:
            for match in islice(pattern.finditer(text), 20):
                yield LintFinding(
                    span=section.span(match.start(1), match.end(1)),
                    summary=summary.format(match[1][:40]),
                    happens=happens,
                    fix=fix,
                )
        stops = re.search(r"^[ \t]*set[ \t]+-\w*e", text, re.MULTILINE)
        for match in islice(_STEP.finditer(text, stops.start()) if stops is not None else (), 20):
            name = match[2] or match[3]
            zero = re.findall(rf"^[ \t]*{name}=(\S+)", text[: match.start()], re.MULTILINE)
            if zero[-1:] == ["0"]:
                yield LintFinding(
                    span=section.span(match.start(1), match.end(1)),
                    summary=f"{match[1]} with {name}=0 is false, and set -e ends the script there",
                    happens="The script ends without a message.",
                    fix=f"Write {name}=$(({name} + 1)).",
                )
