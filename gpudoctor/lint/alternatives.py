"""A text whose `case` takes one of several ways -> the text read along each of them, and along its own defaults.

What two branches set is known of neither where they meet again; a mode, a data set or a model is one of the patterns
that stand there, whoever starts the script. Numbers of nodes, hosts and options are other rooms' (`nodes`).
"""

import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.own_defaults import defaults
from gpudoctor.lint.shell.guards import is_node_rank

MOST_WAYS = 3
MOST_TEXT = 1 << 14
CASE = lazy_re(
    r"^[ \t]*case[ \t]+[\"']?\$\{?([A-Za-z_]\w*|\d)\}?[\"']?[ \t]+in\b(.*?)^[ \t]*esac\b", re.MULTILINE | re.DOTALL
)
BRANCH = lazy_re(
    r"(?:^|;;|\n)[ \t]*\(?[\"']?([A-Za-z0-9][\w.+/-]*)[\"']?(?:[ \t]*\|[^)\n]*)?\)(.*?)(?=;;|\Z)", re.DOTALL
)
SETS = lazy_re(r"(?:^|[\s;])[A-Za-z_]\w*\+?=")
OPTIONS = ("opt", "arg", "flag", "option", "optchar", "c", "o", "key")
LOOPS = lazy_re(r"\b(?:while|until|getopts|shift)\b")


def ways(job: LintJob) -> Iterator[tuple[str, LintJob]]:
    """What is taken ("data=street"), and the text as it then reads."""
    from gpudoctor.lint.read import UnreadableText, read_job

    if job.kind not in ("shell", "sbatch") or len(job.text) > MOST_TEXT or job.facts.seat or job.facts.chosen:
        return
    if not job.launches or job.node_sections:
        return
    if told := {name: value for name, value in defaults(job.text).items() if name not in job.facts.variables}:
        facts = structs.replace(job.facts, variables={**told, **job.facts.variables})
        try:
            read = read_job(job.text, facts, job.kind)
        except UnreadableText:
            return
        if read.launches != job.launches:
            yield ", ".join(f"{name}={value}" for name, value in list(told.items())[:3]), read
    count = 0
    for case in CASE.finditer(job.text):
        name, body = case[1], case[2]
        line = job.text[job.text.rfind("\n", 0, case.start() - 1) + 1 : case.start()]
        if is_node_rank(name) or LOOPS.search(body) or LOOPS.search(line) or re.search(r"^[ \t]*-", body, re.MULTILINE):
            continue
        branches = list(BRANCH.finditer(body))
        if name in OPTIONS or all(len(branch[1]) == 1 for branch in branches):
            continue  # letters of getopts
        for branch in branches:
            if not SETS.search(branch[2]) or count >= MOST_WAYS:
                continue
            count += 1
            facts = structs.replace(job.facts, chosen={name: branch[1]})
            try:
                read = read_job(job.text, facts, job.kind)
            except UnreadableText:
                return
            if read.launches != job.launches:
                yield f"{name}={branch[1]}", read
