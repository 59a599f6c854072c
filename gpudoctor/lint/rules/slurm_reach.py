"""Rules of what reaches the tasks of a SLURM job, and of lines that end as DOS has them: S27 to S29."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import LintJob, Option, SbatchOption, Span, TextSection
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import HEADER, RANKED

_NODES = "#SBATCH --nodes=2\n"
_ARRAY = "#SBATCH --array=0-1\n"
_ONE = HEADER.replace("nodes=2", "nodes=1")


@rule(
    "S27",
    title="The tasks get the environment of the batch script",
    severity="warning",
    source="srun(1), --export: NONE and a list without ALL keep only SLURM_* and what is named; SLURM_EXPORT_ENV",
    bad=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --export=NONE\n"),
        RANKED.replace("srun ", "srun --export=NCCL_DEBUG=INFO "),
    ),
    good=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --export=NONE\n").replace("srun ", "srun --export=ALL "),
        RANKED.replace("srun ", "srun --export=ALL,NCCL_DEBUG=INFO "),
    ),
)
def environment_kept_from_tasks(job: LintJob) -> Iterator[LintFinding]:
    """sbatch --export=NONE sets SLURM_EXPORT_ENV, which srun takes for its own --export: what the script exports, PATH
    among it, does not reach the tasks."""
    if "SLURM_EXPORT_ENV" in job.text:
        return
    said: set[int] = set()
    for launch in job.launches:
        srun = allocation.srun_of(launch)
        if srun is None:
            continue
        option: Option | SbatchOption | None = srun.option("export") or allocation.in_force(job, "export")
        value = allocation.value_text(option)
        if option is None or not value or option.span.start in said or "$" in value.split("=")[0]:
            continue
        names = [part.partition("=")[0] for part in value.split(",")]
        if "ALL" in names or "PATH" in names or (isinstance(option, SbatchOption) and names != ["NONE"]):
            continue
        said.add(option.span.start)
        yield LintFinding(
            span=option.span,
            summary=f"--export={value[:60]} without ALL: the tasks get only SLURM_* and what is named",
            happens="PATH, MASTER_ADDR and the rest that the script exports are not set in the tasks.",
            fix="Write srun --export=ALL," + ("..." if names == ["NONE"] else value[:60]) + ".",
        )


@rule(
    "S28",
    title="Elements of a job array are no nodes of one training",
    source="sbatch(1), --array: each element is a job of its own, which starts when there is room",
    bad=(
        _ONE.replace("#SBATCH --ntasks", _ARRAY + "#SBATCH --ntasks")
        + "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_ARRAY_TASK_ID --master-addr=n01"
        " --master-port=61234 train.py\n",
        _ONE.replace("#SBATCH --ntasks", _ARRAY + "#SBATCH --ntasks")
        + "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank $SLURM_ARRAY_TASK_ID"
        " --main_process_ip n01 --main_process_port 61234 train.py\n",
    ),
    good=(
        _ONE.replace("#SBATCH --ntasks", _ARRAY + "#SBATCH --ntasks")
        + "torchrun --standalone --nproc-per-node=4 train.py --seed $SLURM_ARRAY_TASK_ID\n",
        RANKED,
    ),
)
def array_element_as_node(job: LintJob) -> Iterator[LintFinding]:
    """They may start hours apart, on one node or on nodes that nobody knows beforehand."""
    for launch in job.launches:
        for option in launch.every_option:
            if option.name not in ("node-rank", "machine-rank") or option.value is None:
                continue
            if any(origin.name == "SLURM_ARRAY_TASK_ID" for origin in look.origins(option.value, launch.invocation)):
                yield LintFinding(
                    span=option.span,
                    severity="warning",
                    summary=f"{option.written} is the number of an array's element: each is a job of its own",
                    happens="The elements start when there is room for each: the first waits for the others, and ends.",
                    fix="Ask for the nodes in one job: --nodes=N, --ntasks-per-node=1, srun, and $SLURM_NODEID.",
                )


_DOS = "#!/usr/bin/env python\r\nimport torch.distributed as dist\r\ndist.init_process_group('nccl')\r\n"


@rule(
    "S29",
    title="Lines of a script end as UNIX has them",
    source="measured with sbatch 22.05: Batch script contains DOS line breaks; bash 5.2",
    bad=(
        RANKED.replace("\n", "\r\n"),
        _ONE.replace("\n", "\r\n") + "torchrun --standalone --nproc-per-node=4 train.py\r\n",
        "cd lm\r\nif [ -d a ]; then\r\n  torchrun --standalone --nproc-per-node=4 train.py\r\nfi\r\n",
        "bash run.sh\n#@ file run.sh\ntorchrun --standalone --nproc-per-node=4 train.py\r\n",
    ),
    good=(RANKED, RANKED.replace("srun ", "printf 'x\\r\\n'\nsrun "), _DOS, RANKED + "#@ file train.py\n" + _DOS),
)
def batch_script_with_dos_lines(job: LintJob) -> Iterator[LintFinding]:
    """sbatch looks for carriage returns before it reads the header, and refuses a file whose lines end with them; the
    kernel looks for an interpreter whose name ends with one. Python itself takes both ends of a line."""
    script = re.match(r"#!(?!.*python).*\r\n", job.text) is not None
    batch = job.is_batch and bool(job.sbatch)
    own = next((each for each in job.sections if _is_shells(each) and "\r\n" in each.text), None)
    # A line or two that somebody pasted may have got these ends on their way here.
    broken = own is not None and (_OPENED.search(own.text) or _COMPOUND.search(own.text) or own is not job.sections[0])
    started = job.kind == "shell" and bool(broken and job.launches)
    if own is not None and (batch or script or started):
        places = [own.start + match.start() for match in re.finditer("\r\n", own.text)][:2000]
        at = places[0]
        lines = {place: number for number, place in enumerate(places, job.text.count("\n", 0, at) + 1)}
        yield LintFinding(
            span=Span(at, at + 1, lines[at]),
            summary="The lines end with \\r\\n, as in DOS",
            happens="sbatch: error: Batch script contains DOS line breaks. The job is not submitted."
            if batch
            else "bad interpreter: No such file or directory; under bash no backslash continues its line."
            if script
            else "bash: syntax error near unexpected token `$'do\\r''."
            if _OPENED.search(own.text)
            else "bash: syntax error: unexpected end of file, for fi\\r closes nothing."
            if _COMPOUND.search(own.text)
            else "bash takes \\r for a part of each line's last word: $'\\r': command not found; no backslash continues"
            " its line, and the program gets arguments that end with it.",
            fix="Write sed -i 's/\\r$//' FILE.",
            edits=tuple(Edit(Span(place, place + 1, line), "") for place, line in lines.items()),
        )


_OPENED = lazy_re(r"(?:[;\s]do|\{)\r$", re.MULTILINE)
_COMPOUND = lazy_re(r"^[ \t]*(?:fi|done|esac|\})\r$|[;\s](?:then|else)\r$", re.MULTILINE)
"""Measured with bash 5.2."""


def _is_shells(section: TextSection) -> bool:
    return section.kind != "file" or section.name.endswith((".sh", ".bash", ".sbatch", ".slurm"))
