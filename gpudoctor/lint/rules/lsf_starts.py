"""Rules of LSF's bsub and jsrun, and of blanks in an export: H09, M13, Q30."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.understood import whole

_FILE = "#@ file train.lsf\n#!/bin/bash\n#BSUB -n 4\n#BSUB -gpu num=4\ntorchrun --standalone --nproc-per-node=4 t.py\n"
_BSUB = lazy_re(r"^[ \t]*bsub\b(?P<options>(?:[ \t]+-\S+(?:[ \t]+(?!-)[^\s<|]+)?)*?)[ \t]+(?P<file>[\w./-]+)[ \t]*$",
                   re.MULTILINE)  # fmt: skip


def _place(job: LintJob, start: int, end: int) -> Span:
    return Span(start, end, job.text.count("\n", 0, start) + 1)


@rule(
    "H09",
    title="bsub reads a script's #BSUB lines from its standard input",
    source="bsub(1): #BSUB lines are read in bsub < FILE; bsub FILE runs the file as a command",
    bad=(_FILE + "#@ node login\nbsub train.lsf\n", _FILE + "#@ node login\nbsub -q gpu ./train.lsf\n"),
    good=(_FILE + "#@ node login\nbsub < train.lsf\n", "#@ node login\nbsub -n 4 -gpu num=4 ./train.sh\n"),
)
def bsub_without_the_arrow(job: LintJob) -> Iterator[LintFinding]:
    """`bsub train.lsf` hands the file's name over as the command to run: what its #BSUB lines ask for is not asked."""
    for match in _BSUB.finditer(job.text):
        last = match["file"].rpartition("/")[2]
        named = next((section for section in job.sections if section.name.rpartition("/")[2] == last), None)
        if named is None or not re.search(r"^#BSUB\b", named.text, re.MULTILINE):
            continue
        yield LintFinding(
            span=_place(job, match.start("file"), match.end("file")),
            summary=f"bsub {match['file']} runs the file as a command, and reads no #BSUB line of it",
            happens="The job gets the queue's defaults: no GPU, one slot, another output file.",
            fix=f"Write bsub < {match['file']}.",
        )


_HEADER = "#!/bin/bash\n#BSUB -nnodes 2\n#BSUB -W 60\n"


@rule(
    "M13",
    title="The hosts hold as many resource sets as are asked for",
    source="jsrun(1): nrs should not be greater than rs_per_host times the number of hosts",
    bad=(
        _HEADER + "jsrun -n 16 -r 4 -a 1 -c 10 -g 1 python train.py\n",
        _HEADER + "jsrun --nrs 13 --rs_per_host 6 -a 1 -c 7 -g 1 python train.py\n",
    ),
    good=(
        _HEADER + "jsrun -n 8 -r 4 -a 1 -c 10 -g 1 python train.py\n",
        _HEADER + "jsrun -n 12 -a 1 -c 7 -g 1 python train.py\n",
    ),
)
def more_sets_than_hosts_hold(job: LintJob) -> Iterator[LintFinding]:
    """-n counts the resource sets in all, -r those on each host: there are at most -r times the hosts."""
    header = re.search(r"^#BSUB[^\n]*-nnodes[ \t]+(\d{1,5})", job.text, re.MULTILINE | re.ASCII)
    if header is None:
        return
    hosts = int(header[1])
    for launch in (launch for one in job.launches[: look.SIBLINGS] for launch in (one, *one.around)):
        sets, each = launch.option("nrs", "n"), launch.option("rs-per-host", "r")
        if launch.launcher != "jsrun" or sets is None:
            continue
        total, per_host = whole(sets), whole(each)
        if total is not None and per_host and total > per_host * hosts:
            yield LintFinding(
                span=sets.span,
                summary=f"{counted(total, 'resource set')}, {per_host} on each of {counted(hosts, 'host')}",
                happens=f"jsrun refuses: nrs ({total}) should not be greater than rs_per_host ({per_host}) * number of"
                f" servers available ({hosts}).",
                fix=f"Write {sets.written} {per_host * hosts}, or ask for {-(-total // per_host)} hosts.",
            )


_EXPORT = lazy_re(
    r"^[ \t]*(?P<all>(?:export|declare[ \t]+-\w+|readonly)[ \t]+(?P<name>[A-Za-z_]\w*)"
    r"(?:[ \t]+=[ \t]*\S*|=[ \t]+(?P<value>[^\sA-Za-z_#;&|\"'`$][^\s=]*)[ \t]*$))",
    re.MULTILINE,
)


@rule(
    "Q30",
    title="An export has no blank at its equals sign",
    source="bash(1), export NAME=VALUE; measured with bash 5.2: export: `=': not a valid identifier",
    bad=(
        "export NPROC = 4\ntorchrun --standalone --nproc-per-node=$NPROC train.py\n",
        "export MASTER_PORT= 29501\ntorchrun --nproc-per-node=4 --master-port=$MASTER_PORT train.py\n",
    ),
    good=(
        "export NPROC=4\ntorchrun --standalone --nproc-per-node=$NPROC train.py\n",
        "export A= B=1\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def export_with_blanks(job: LintJob) -> Iterator[LintFinding]:
    """The shell takes each word for a name of its own: the variable is exported without a value, and the rest is
    refused."""
    for section in job.sections if job.kind in ("shell", "sbatch") else ():
        if section.kind == "file" and not section.name.endswith((".sh", ".bash", ".sbatch", ".slurm")):
            continue
        for match in _EXPORT.finditer(section.text):
            start = section.start + match.start("all")
            yield LintFinding(
                span=_place(job, start, section.start + match.end("all")),
                summary=f"`{match['all'][:60].strip()}` sets no {match['name']}",
                happens=f"bash: export: not a valid identifier; {match['name']} is empty.",
                fix=f"Write export {match['name']}=..., without blanks.",
            )
            break
