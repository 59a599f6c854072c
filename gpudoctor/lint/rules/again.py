"""Rules of starts that come again or several times, and of values that a pipe loses: P10, R14, Q19."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.look import number, value
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.ports_shared import listens

_ARRAY = "#!/bin/bash\n#SBATCH --array=0-7\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=2\n#SBATCH --cpus-per-task=16\n"
_TORCHRUN = "torchrun --nnodes=1 --nproc-per-node=2 --master-addr=127.0.0.1 --master-port={} train.py\n"
_RESTARTED = (
    "torchrun --nnodes=2 --nproc-per-node=4 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=n01:29400 --rdzv-id=7"
    " train.py{}\n#@ file train.py\nimport torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
    "for epoch in range(100):\n    loss(net(x)).backward()\n{}"
)
_GOES_ON = lazy_re(r"load|resume|restore|c(?:heck)?(?:p|k)?p(?:oin)?t|snapshot|restart", re.IGNORECASE)
"""What a program that goes on from a checkpoint has in it somewhere."""
_PIPED = lazy_re(
    r"^(?P<before>[^#\n]*[^|\n])\|[ \t]*(?P<read>(?:IFS=\S*[ \t]+)?read(?P<options>(?:[ \t]+-[a-z]+)*)[ \t]+"
    r"(?P<name>[A-Za-z_]\w*))(?P<more>(?:[ \t]+[A-Za-z_]\w*)*)[ \t]*(?:;|&&|$)",
    re.MULTILINE,
)
_ONE = "torchrun --standalone --nproc-per-node=$GPUS train.py\n"


@rule(
    "P10",
    title="Elements of a job array on one node have a port each",
    severity="warning",
    needs="facts",
    source="sbatch(1), --array: elements run at the same time, where there is room; torch 2.13: EADDRINUSE",
    leads_to=("master-port-in-use",),
    bad=(
        _ARRAY + _TORCHRUN.format(29501),
        Example(_ARRAY + "export MASTER_PORT=29501\n" + _TORCHRUN.format("$MASTER_PORT"), "gpus_per_node=8"),
    ),
    good=(
        _ARRAY + _TORCHRUN.format("$((29501 + SLURM_ARRAY_TASK_ID))"),
        _ARRAY.replace("0-7", "0-7%1") + _TORCHRUN.format(29501),
        Example(_ARRAY + _TORCHRUN.format(29501), "gpus_per_node=2"),
    ),
)
def array_on_one_port(job: LintJob) -> Iterator[LintFinding]:
    """SLURM puts several elements of an array on a node as long as there are GPUs. The second one's head finds the port
    taken, or its ranks join the first one's training."""
    array = allocation.in_force(job, "array")
    elements = allocation.value_text(array) if array is not None else ""
    if array is None or re.search(r"%1$", elements) or not re.search(r"[-,]", elements):
        return
    if any(allocation.in_force(job, name) is not None for name in ("exclusive",)) or "$" in elements:
        return
    memory = allocation.in_force(job, "mem")
    if memory is not None and allocation.value_text(memory) == "0":
        return  # the whole node
    for launch in job.launches:
        gpus, there = allocation.gpus_per_node(job, launch), job.facts.gpus_per_node
        if (allocation.nodes(job, launch) or 1) > 1 or (gpus and there and gpus >= there) or (gpus or 0) >= 8:
            continue
        port = look.port(launch)
        if listens(job, launch) is None or port is None or number(port) is None or number(port) == 0:
            continue
        yield LintFinding(
            span=port.span,
            summary=f"each element of the array {elements} takes port {number(port)},"
            " and several of them fit on one node",
            happens="The second one on a node ends with EADDRINUSE, or its ranks join the first one's store.",
            fix="Write the port as $((20000 + SLURM_JOB_ID % 10000)), or start torchrun with --standalone.",
        )
        return


@rule(
    "R14",
    title="A start that restarts goes on from a checkpoint",
    severity="warning",
    source="torch's documentation, torchrun: on a failure all workers begin the script again",
    bad=(_RESTARTED.format("", ""), _RESTARTED.format(" --lr 0.1", "torch.distributed.destroy_process_group()\n")),
    good=(
        _RESTARTED.format(
            "", "    torch.save(net.state_dict(), 'last.pt')\nnet.load_state_dict(torch.load('last.pt'))\n"
        ),
        _RESTARTED.format(" --resume auto", ""),
        _RESTARTED.replace(" --max-restarts=3", "").format("", ""),
    ),
)
def restarts_from_nothing(job: LintJob) -> Iterator[LintFinding]:
    """torchrun starts all ranks of a node again when one fails, and they run the script from its first line."""
    for launch in job.launches:
        option = value(launch, "max-restarts") if launch.launcher in look.TORCHRUN else None
        program = program_of(job, launch) if option is not None and (number(option) or 0) > 0 else None
        if option is None or program is None or ".backward(" not in program.text:
            continue
        words = " ".join(word.shown for word in launch.script_words)
        if _GOES_ON.search(program.text) or _GOES_ON.search(words):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"{option.written} is {number(option)}, and the program loads no checkpoint",
            happens="After a failure the training begins at its first step again, without a message.",
            fix="Save a checkpoint now and then, and load the last one at the start.",
        )


@rule(
    "Q19",
    title="What read takes at the end of a pipe is used there",
    source="bash(1), Pipelines: each command of a pipeline is executed in a subshell; measured with bash 5.2",
    bad=(
        "nvidia-smi -L | wc -l | read GPUS\n" + _ONE,
        "#!/bin/bash\nscontrol show hostnames | head -n1 | read -r HEAD\ntorchrun --nnodes=2 --nproc-per-node=4"
        " --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 --rdzv-id=7 train.py\n",
    ),
    good=(
        "GPUS=$(nvidia-smi -L | wc -l)\n" + _ONE,
        "shopt -s lastpipe\nnvidia-smi -L | wc -l | read GPUS\n" + _ONE,
        "nvidia-smi -L | while read line; do echo $line; done\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def read_in_a_pipe(job: LintJob) -> Iterator[LintFinding]:
    """bash runs the last command of a pipe in a shell of its own, too: what read sets is gone when the line ends."""
    for section in job.sections:
        text = section.text
        if section.kind == "file" and not section.name.endswith((".sh", ".bash", ".sbatch", ".slurm")):
            continue
        if job.kind not in ("shell", "sbatch") or "lastpipe" in text or re.match(r"#!.*\b(?:zsh|ksh)\b", text):
            continue
        for match in _PIPED.finditer(text):
            name, rest = match["name"], text[match.end() :]
            used = re.search(rf"\$\{{?{name}\b", rest)
            if used is None or re.search(rf"^[ \t]*(?:export[ \t]+)?{name}=", rest[: used.start()], re.MULTILINE):
                continue
            before = re.search(rf"^[ \t]*(?:export[ \t]+)?{name}=", text[: match.start()], re.MULTILINE)
            start = section.start + match.start("read")
            inner = match["before"].strip()
            edits: tuple[Edit, ...] = ()
            if before is None and not match["options"] and not match["more"] and "|" not in inner[-1:]:
                begin = section.start + match.start() + len(match["before"]) - len(match["before"].lstrip())
                end = section.start + match.end("more")
                line = section.line + text.count("\n", 0, match.start())
                edits = (Edit(Span(begin, end, line), f"{name}=$({inner})"),)
            yield LintFinding(
                span=Span(start, section.start + match.end("more"), section.line + text.count("\n", 0, match.start())),
                severity="warning" if before is not None else None,
                summary=f"read {name} stands at the end of a pipe, and {name} is used in lines below",
                happens=f"{name} is {'what it was before' if before is not None else 'empty'} there: the last command"
                " of a pipe runs in a shell of its own.",
                fix=f"Write {name}=$({inner}).",
                edits=edits,
            )
