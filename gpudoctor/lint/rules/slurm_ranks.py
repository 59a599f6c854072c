"""Rules of ranks under SLURM: where SLURM_PROCID and its likes are expanded. S02, S03, S16, S17."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, look
from gpudoctor.lint.hand_ranks import inits
from gpudoctor.lint.model import Expansion, LintJob, LintLaunch, Span, Word
from gpudoctor.lint.pods import is_template
from gpudoctor.lint.python_code import argument, codes_and_starts
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import ADDRESS, HEADER, PER_GPU, PLAIN, RANKED, TORCHRUN
from gpudoctor.lint.task_shell import PER_TASK, expanded_outside, wrapped

_SCRIPT_RANK = lazy_re(r"--(?:global[-_]|local[-_]|node[-_]|machine[-_]|dist[-_])?rank(?:=(.*))?", re.DOTALL)
_LITERAL = lazy_re(r"\$\{?(SLURM_\w+|MASTER_ADDR|MASTER_PORT|(?:NODE_|LOCAL_|GROUP_)?RANK|WORLD_SIZE|HOSTNAME)\b")
_NAME = lazy_re(r"\$\{?([A-Za-z_]\w*)")
_OF_THE_WORLD = (
    "nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-id", "num-machines",
    "num-processes", "machine-rank", "main-process-ip", "main-process-port", "num-gpus", "num-nodes",
)  # fmt: skip
"""Options in which a `$` means nothing to the launcher itself."""
_TO_HOSTS = ("ssh", "pdsh", "clush")
_READ_BY_PROGRAMS = ("RANK", "LOCAL_RANK")


def rank_words(launch: LintLaunch) -> Iterator[tuple[str, Word]]:
    """What becomes a rank: options of the launcher, arguments of the script, variables that nothing overwrites."""
    if not look.traits(launch).bare:
        option = launch.option("node-rank", "machine-rank")
        if option is not None and option.value is not None:
            yield option.written, option.value
    words = launch.script_words
    for index, word in enumerate(words):
        match = _SCRIPT_RANK.fullmatch(word.shown)
        if match is None:
            continue
        if match[1] is not None:
            yield word.shown.split("=")[0], word
        elif index + 1 < len(words):
            yield word.shown, words[index + 1]
    if look.traits(launch).bare:
        for name in _READ_BY_PROGRAMS:
            setting = launch.invocation.settings.get(name)
            if setting is not None and setting.exported:
                yield name, setting.word


def _per_task(launch: LintLaunch, word: Word) -> Expansion | None:
    """The SLURM rank variable that a word comes from."""
    return next((origin for origin in look.origins(word, launch.invocation) if origin.name in PER_TASK), None)


@rule(
    "S02",
    title="SLURM_PROCID, SLURM_NODEID and SLURM_LOCALID are expanded in the task",
    source="measured with Slurm 22.05; many threads",
    leads_to=("launcher-world-mismatch",),
    bad=(
        HEADER + ADDRESS + "srun " + TORCHRUN.format("$SLURM_NODEID") + "\n",
        HEADER + ADDRESS + "NODE_RANK=$SLURM_PROCID\nsrun --cpus-per-task=32 " + TORCHRUN.format("$NODE_RANK") + "\n",
        PER_GPU + ADDRESS + "export RANK=$SLURM_PROCID\nexport LOCAL_RANK=$SLURM_LOCALID\nexport WORLD_SIZE=8\n"
        "srun --cpus-per-task=8 python train.py\n",
        HEADER + ADDRESS + 'srun bash -c "' + TORCHRUN.format("$SLURM_NODEID") + '"\n',
    ),
    good=(
        RANKED,
        PLAIN,
        HEADER + ADDRESS + 'srun bash -c "' + TORCHRUN.format("\\$SLURM_NODEID") + '"\n',
        HEADER.replace("nodes=2", "nodes=1")
        + "srun torchrun --nproc-per-node=4 --standalone train.py --run $SLURM_NODEID\n",
        PER_GPU + ADDRESS + "export RANK=$SLURM_PROCID\nsrun --cpus-per-task=8 python train.py\n#@ file train.py\n"
        "import os\nimport torch.distributed as dist\n"
        "dist.init_process_group('nccl', rank=int(os.environ['SLURM_PROCID']), world_size=8)\n",
    ),
)
def slurm_rank_expanded_too_early(job: LintJob) -> Iterator[LintFinding]:
    """A `$` outside of single quotes is expanded by the shell that reads the line. In a batch script that is one shell
    on the first node, where SLURM_PROCID, SLURM_NODEID and SLURM_LOCALID are 0: srun then hands 0 to every task."""
    said: set[int] = set()
    yield from _by_ssh(job)
    for launch in job.launches:
        if allocation.srun_of(launch) is None or allocation.tasks(job, launch) == 1:
            continue
        for written, word in rank_words(launch):
            early = _per_task(launch, word)
            if early is None or early.where == "task":
                continue
            if early.name == "SLURM_NODEID" and allocation.nodes(job, launch) == 1:
                continue
            if early.name == "SLURM_LOCALID" and allocation.tasks_per_node(job, launch) == 1:
                continue
            variable = not written.startswith("-")
            if variable and (lightning.is_lightning(job, launch) or early.where == "node"):
                continue
            if variable and _is_unread(job, launch, written):
                continue
            if launch.invocation.span.start in said and not variable:
                continue
            said.add(launch.invocation.span.start)
            ignored = look.is_dynamic(launch) and re.match(r"--(?:node|machine)[-_]rank", written) is not None
            at = word.span if early.span is None else early.span
            value = "0" if early.where == "batch" else "empty"
            yield LintFinding(
                span=at,
                severity="info" if ignored else None,
                summary=f"{written} gets ${early.name} from the shell that reads this line, where it is {value}"
                " for all tasks",
                happens="c10d hands out the node ranks itself and ignores this one."
                if ignored
                else f"Every task that srun starts gets {written} {value}: all of them take the same rank, and the job"
                " fails with EADDRINUSE or waits until the rendezvous times out.",
                fix=f"Let the task's own shell expand it: srun ... bash -c '... ${early.name} ...', in single quotes.",
                edits=() if ignored else _late(job, launch, written, word, early),
            )


def _by_ssh(job: LintJob) -> Iterator[LintFinding]:
    """`for h in $NODES; do ssh $h "... --node_rank $SLURM_PROCID"`: filled in once, by the batch script's own shell."""
    found: dict[int, tuple[str, Expansion, Word, bool]] = {}
    for launch in job.launches:
        around = next((outer for outer in launch.invocation.within if outer.program in _TO_HOSTS), None)
        if around is None or allocation.srun_of(launch) is not None or allocation.nodes(job, launch) == 1:
            continue
        for written, word in rank_words(launch) if not look.is_dynamic(launch) else ():
            early = _per_task(launch, word)
            if early is not None and early.where == "batch" and written.startswith("-"):
                found[word.span.start] = written, early, word, bool(around.in_loop) or around.program != "ssh"
    for written, early, word, to_many in found.values():
        if to_many or len(found) > 1:
            yield LintFinding(
                span=word.span if early.span is None else early.span,
                summary=f"{written} gets ${early.name} from the batch script, where it is 0: each host gets 0",
                happens="Every node is node 0: the job fails with EADDRINUSE or waits until the rendezvous times out.",
                fix="Count the hosts of the loop (rank=$((rank + 1))), or start it by srun ... bash -c '...' in single"
                " quotes.",
            )


def _is_unread(job: LintJob, launch: LintLaunch, name: str) -> bool:
    """The program is here, does not name the variable, and joins by a rank that it has from elsewhere."""
    code = next((code for code, starts in codes_and_starts(job) if launch in starts), None)
    joins = list(inits(code)) if code is not None and not re.search(rf"\b{name}\b", code.text) else []
    return bool(joins) and all(argument(init, "rank", 4) is not None for init in joins)


def _late(job: LintJob, launch: LintLaunch, written: str, word: Word, early: Expansion) -> tuple[Edit, ...]:
    if look.in_a_task_shell(launch):  # in bash -c "...": the dollar needs a backslash
        span = early.span
        if span is None or not span.exact or not job.text.startswith("$", span.start):
            return ()
        return (Edit(Span(span.start, span.start, span.line), "\\"),)
    if written.startswith("-"):
        return wrapped(job, launch)
    settings = launch.invocation.settings
    pairs = [f"{name}=${expansion.name}" for name in _READ_BY_PROGRAMS if name in settings
             and (expansion := _per_task(launch, settings[name].word)) is not None]  # fmt: skip
    return wrapped(job, launch, before=" ".join(pairs) + " ")


@rule(
    "S03",
    title="A variable that is quoted from the shell reaches a shell that expands it",
    source="measured with Slurm 22.05 and torch 2.13",
    bad=(
        HEADER + ADDRESS + "srun --cpus-per-task=32 " + TORCHRUN.format("\\$SLURM_NODEID") + "\n",
        HEADER + ADDRESS + "srun --cpus-per-task=32 " + TORCHRUN.format("'$SLURM_NODEID'") + "\n",
        "RANKS=4\ntorchrun --standalone --nproc-per-node='$RANKS' train.py\n",
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank='$SLURM_NODEID' --master-addr=10.20.0.11"
        " --master-port=61234 train.py\n",
    ),
    good=(RANKED, HEADER + ADDRESS + 'srun bash -c "' + TORCHRUN.format("\\$SLURM_NODEID") + '"\n',
          RANKED.replace("train.py", "train.py --pattern \\${now}")),
)  # fmt: skip
def literal_dollar(job: LintJob) -> Iterator[LintFinding]:
    r"""`\$X` and `'$X'` keep the shell from expanding. Where what gets the word is no shell (srun starts torchrun
    without one), nobody expands it any more, and the program gets the letters `$SLURM_NODEID`."""
    for launch in job.launches:
        under = allocation.srun_of(launch) is not None or allocation.under_mpi(launch)
        words = [option.value for option in launch.every_option if option.value is not None]
        if launch.launcher in ("srun", "mpirun"):
            words = []
        numbers = [option.value for option in launch.every_option if option.name in _OF_THE_WORLD]
        script = list(launch.script_words) if under else []
        for word in (*words, *script):
            match = _LITERAL.search(word.shown) if word.literal_dollar else None
            if match is None and word.literal_dollar and word in numbers:
                match = _NAME.search(word.shown)
            if match is None or is_template(job, launch):  # envsubst fills it in
                continue
            if any(option.value is word and option.name == "runtime-env-json" for option in launch.every_option):
                continue  # Ray fills in ${VAR} among its env_vars, where the job runs
            alike = any(option.value is word and option.name == "rdzv-id" for option in launch.every_option)
            yield LintFinding(
                span=word.span,
                severity="warning" if alike else None,  # a name of all nodes, if not of this job alone
                summary=f"{word.raw} reaches {launch.entry or launch.launcher} as the letters {word.shown};"
                " nothing expands it",
                happens="The launcher ends with an error (invalid int value), or looks for a host of that name."
                if word in words
                else "The script gets the name of the variable in place of its value.",
                fix=f"Start it by a shell in each task: srun ... bash -c '... ${match[1]} ...'."
                if under
                else f"Take the quotes or the backslash away from ${match[1]}.",
                edits=_unquoted(job, launch, word),
            )
            break


def _unquoted(job: LintJob, launch: LintLaunch, word: Word) -> tuple[Edit, ...]:
    """Without backslash or single quotes, in a shell of the task's own."""
    if not word.span.exact or job.text[word.span.start : word.span.end] != word.raw:
        return ()
    plain = word.raw.replace("\\$", "$").replace("'", '"')
    first = launch.invocation.words[0]
    last = launch.invocation.words[-1]
    others = job.text[first.span.start : word.span.start] + job.text[word.span.end : last.span.end]
    edit = Edit(word.span, plain)
    if allocation.srun_of(launch) is None:
        return (edit,) if not allocation.under_mpi(launch) else ()
    if "'" in others or not first.span.exact or not last.span.exact:
        return ()
    around = wrapped_regardless(job, launch, word)
    return (edit, *around) if around else ()


def wrapped_regardless(job: LintJob, launch: LintLaunch, quoted: Word) -> tuple[Edit, ...]:
    """`bash -c '...'` around a command whose only single quotes, in `quoted`, are taken out by another edit."""
    first, last = launch.invocation.words[0].span, launch.invocation.words[-1].span
    if look.in_a_task_shell(launch):
        return ()
    opening = Edit(Span(first.start, first.start, first.line), "bash -c '")
    others = tuple(word for word in launch.invocation.words if word is not quoted)
    return (opening, Edit(Span(last.end, last.end, last.line), "'"), *expanded_outside(job, launch, others))


@rule(
    "S16",
    title="Lightning before 2.1 is started by srun itself, not by torchrun under srun",
    needs="facts",
    source="measured with Lightning 1.9.5 and 2.6.6 under Slurm 22.05",
    leads_to=("launcher-world-mismatch",),
    bad=(
        Example(RANKED, "nodes=2,lightning=1.9.5"),
        Example(RANKED.replace("train.py", "train.py --devices 4 --strategy ddp"), "lightning=2.0.3"),
    ),
    good=(Example(RANKED, "nodes=2,lightning=2.6.6"), Example(RANKED, "nodes=2")),
)
def torchrun_under_srun_with_old_lightning(job: LintJob) -> Iterator[LintFinding]:
    """Lightning before 2.1 looks for SLURM before it looks for torchrun: under srun it takes SLURM_PROCID for the rank,
    and what torchrun says is not read."""
    for launch in job.launches:
        if launch.launcher not in look.TORCHRUN or allocation.srun_of(launch) is None:
            continue
        if not lightning.before(job, 2, 1) or not lightning.is_lightning(job, launch):
            continue
        if launch.option("nproc-per-node") is not None and (launch.text("nproc-per-node") or "1") == "1":
            continue  # one process is what SLURM counts too
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"{launch.entry or 'torchrun'} under srun starts {lightning.named(job)}, which takes its ranks from"
            " SLURM; torchrun's are read from 2.1 on",
            happens="All processes of a node take the same rank from SLURM_PROCID: a hang, or ranks that are there"
            " twice.",
            fix="Drop torchrun: --ntasks-per-node= as many as GPUs, and srun python train.py; or upgrade Lightning to"
            " 2.1 or later.",
        )


@rule(
    "S17",
    title="The node rank is SLURM_NODEID, not SLURM_PROCID",
    severity="warning",
    source="measured with Slurm 22.05",
    leads_to=("launcher-world-mismatch",),
    bad=(
        PER_GPU + ADDRESS + "srun --cpus-per-task=8 bash -c '" + TORCHRUN.format("$SLURM_PROCID") + "'\n",
        PER_GPU + ADDRESS + "srun bash -c 'accelerate launch --multi_gpu --num_machines 2 --num_processes 2"
        " --machine_rank $SLURM_PROCID --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT train.py'\n",
    ),
    good=(RANKED, RANKED.replace("SLURM_NODEID", "SLURM_PROCID"), PLAIN),
)  # fmt: skip
def task_rank_as_node_rank(job: LintJob) -> Iterator[LintFinding]:
    """SLURM_PROCID counts tasks, SLURM_NODEID nodes. They are equal while there is one task on each node. SLURM_LOCALID
    counts the tasks of one node, from 0 on each."""
    for launch in job.launches:
        here = allocation.tasks_per_node(job, launch)
        node_rank = launch.option("node-rank", "machine-rank")
        local = _per_task(launch, node_rank.value) if node_rank is not None and node_rank.value is not None else None
        if node_rank is not None and local is not None and local.name == "SLURM_LOCALID":
            if (allocation.nodes(job, launch) or 1) > 1 and not look.traits(launch).bare:
                yield LintFinding(
                    span=local.span or node_rank.span,
                    severity="error",
                    summary=f"{node_rank.written} is $SLURM_LOCALID, which counts the tasks of one node:"
                    " 0 is there on each",
                    happens="Every node says that it is node 0: the others are waited for until the time-out.",
                    fix="Use $SLURM_NODEID.",
                )
            continue
        if here is None or here < 2 or look.traits(launch).bare:
            continue
        option = launch.option("node-rank", "machine-rank")
        expansion = _per_task(launch, option.value) if option is not None and option.value is not None else None
        if option is None or expansion is None or expansion.name != "SLURM_PROCID":
            continue
        span = expansion.span
        exact = span is not None and "SLURM_PROCID" in job.text[span.start : span.end] and span.exact
        yield LintFinding(
            span=span or option.span,
            summary=f"{option.written} is $SLURM_PROCID with {here} tasks a node: it counts tasks, and runs up to"
            f" {(allocation.nodes(job, launch) or 1) * here - 1}",
            happens="Node ranks beyond --nnodes fail or wait for the rendezvous until it times out.",
            fix="Use $SLURM_NODEID, and one task on each node.",
            edits=(Edit(span, job.text[span.start : span.end].replace("SLURM_PROCID", "SLURM_NODEID")),)
            if span is not None and exact
            else (),
        )
