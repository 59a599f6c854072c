"""Rules of numbers in another unit, and of ranks filled from the wrong variable: S31, S32, E17, E18, A15."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.model import Invocation, LintJob, Word
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import PLAIN, RANKED

_NODES = "#SBATCH --nodes=2\n"
_LOCAL = "torchrun --standalone --nproc-per-node=4 train.py"
_HOURS = ("24", "36", "48", "72", "96", "120", "168")
_MEGABYTES = 1024
"""Less than that is meant as gigabytes: our own rule of thumb; torch alone takes more when it is imported."""


@rule(
    "S31",
    title="Memory and time are written with their units",
    severity="warning",
    source="sbatch(1): --mem without a unit is megabytes; of --time a:b is minutes:seconds",
    bad=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --mem=64\n"),
        RANKED.replace(_NODES, _NODES + "#SBATCH --time=48:00\n"),
        RANKED.replace(_NODES, _NODES + "#SBATCH --mem-per-cpu=4\n"),
    ),
    good=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --mem=64G\n#SBATCH --time=30:00\n"),
        RANKED.replace(_NODES, _NODES + "#SBATCH --mem=0\n"),
    ),
)
def number_in_another_unit(job: LintJob) -> Iterator[LintFinding]:
    """--mem=64 are 64 megabytes, and --time=48:00 are 48 minutes: people mean gigabytes and hours by them."""
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        option = allocation.in_force(job, name)
        value = allocation.whole(allocation.value_text(option))
        if option is not None and value and value < _MEGABYTES:
            yield LintFinding(
                span=option.span,
                summary=f"--{name}={value} is {value} megabytes",
                happens="The ranks are killed when they import torch: oom-kill event, Killed.",
                fix=f"Write --{name}={value}G.",
            )
    option = allocation.in_force(job, "time")
    match = re.fullmatch(r"(\d{1,3}):00", allocation.value_text(option), re.ASCII)
    if option is not None and match is not None and match[1] in _HOURS:
        yield LintFinding(
            span=option.span,
            summary=f"--time={match[0]} is {match[1]} minutes, and not hours",
            happens="SLURM ends the job at that time: CANCELLED ... DUE TO TIME LIMIT.",
            fix=f"Write --time={match[1]}:00:00 for hours.",
        )


@rule(
    "S32",
    title="A launcher sees the GPUs of all its ranks",
    source="srun(1), --gpus-per-task: each task sees its own GPUs only; measured with Slurm 22.05",
    leads_to=("duplicate-gpu",),
    bad=(
        RANKED.replace("srun ", "srun --gpus-per-task=1 "),
        RANKED.replace("#SBATCH --gres=gpu:4", "#SBATCH --gpus-per-task=2"),
    ),
    good=(RANKED, RANKED.replace("#SBATCH --gres=gpu:4", "#SBATCH --gpus-per-task=4")),
)
def launcher_sees_too_few_gpus(job: LintJob) -> Iterator[LintFinding]:
    """One torchrun is one task: of --gpus-per-task=1 it sees one GPU, and its other ranks have none."""
    for launch in job.launches:
        if not look.traits(launch).a_node or not look.sruns(launch) or processes.on_cpu(launch):
            continue
        seen, ranks = allocation.sees_own_gpus_only(job, launch), processes.per_node(job, launch)
        option = allocation.gives(job, launch, "gpus-per-task")
        if option is None or not seen or not ranks or ranks <= seen:
            continue
        yield LintFinding(
            span=option.span,
            summary=f"{allocation.written(option)}: {ranks} ranks start where {counted(seen, 'GPU')} can be seen",
            happens="CUDA error: invalid device ordinal, at the first rank that has none.",
            fix=f"Write --gpus-per-task={ranks}, or --gpus-per-node={ranks} in its place.",
        )
        return


_WRONG = (
    ("RANK", "SLURM_LOCALID", "nodes", "is the same on each node: two ranks have one number"),
    ("RANK", "SLURM_NODEID", "tasks", "is the same for all tasks of a node: several ranks have one number"),
    ("LOCAL_RANK", "SLURM_PROCID", "nodes", "counts on over the nodes: there is no GPU of that number"),
    ("WORLD_SIZE", "SLURM_NNODES", "tasks", "is the number of nodes: other ranks are refused, or wait"),
    ("WORLD_SIZE", "SLURM_JOB_NUM_NODES", "tasks", "is the number of nodes: other ranks are refused, or wait"),
    ("WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "nodes", "is the number of one node's tasks: other ranks are refused"),
)
"""A variable of torch, the one of SLURM that it is filled from, what there must be several of, what follows."""


@rule(
    "E17",
    title="Ranks are filled from the variables of SLURM that count the same",
    source="srun(1), OUTPUT ENVIRONMENT VARIABLES; torch's env://",
    leads_to=("launcher-world-mismatch",),
    bad=(
        PLAIN.replace("RANK=$SLURM_PROCID ", "RANK=$SLURM_LOCALID "),
        PLAIN.replace("WORLD_SIZE=$SLURM_NTASKS", "WORLD_SIZE=$SLURM_NNODES"),
        PLAIN.replace("LOCAL_RANK=$SLURM_LOCALID", "LOCAL_RANK=$SLURM_PROCID"),
    ),
    good=(
        PLAIN,
        PLAIN.replace("ntasks-per-node=4", "ntasks-per-node=1").replace("$SLURM_NTASKS", "$SLURM_NNODES"),
    ),
)
def rank_from_the_wrong_variable(job: LintJob) -> Iterator[LintFinding]:
    """RANK counts all tasks (SLURM_PROCID), LOCAL_RANK those of a node (SLURM_LOCALID), WORLD_SIZE is SLURM_NTASKS."""
    for launch in job.launches:
        if launch.launcher != "srun":
            continue
        several = {
            "nodes": (allocation.nodes(job, launch) or 1) > 1,
            "tasks": (allocation.tasks_per_node(job, launch) or 1) > 1,
        }
        for name, source, needed, why in _WRONG:
            setting = launch.invocation.settings.get(name)
            if setting is None or not several[needed]:
                continue
            names = [origin.name for origin in look.origins(setting.word, launch.invocation)]
            if names == [source]:
                right = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}[name]
                yield LintFinding(
                    span=setting.word.span,
                    summary=f"{name} is ${source}, which {why}",
                    happens="init_process_group fails or waits until its time-out, or ranks share a GPU.",
                    fix=f"Write {name}=${right}.",
                )


@rule(
    "E18",
    title="A launcher's shell does not use what only its ranks have",
    source="torch/distributed/elastic/agent: LOCAL_RANK is set for each worker; bash(1)",
    leads_to=("no-gpu-visible",),
    bad=(
        f"CUDA_VISIBLE_DEVICES=$LOCAL_RANK {_LOCAL}\n",
        f"{_LOCAL} --gpu $LOCAL_RANK\n",
    ),
    good=(f"CUDA_VISIBLE_DEVICES=0,1,2,3 {_LOCAL}\n", f"LOCAL_RANK=0\n{_LOCAL} --first $LOCAL_RANK\n"),
)
def local_rank_before_it_is_set(job: LintJob) -> Iterator[LintFinding]:
    """LOCAL_RANK is set by the launcher for each of its ranks; in the shell that starts the launcher it is empty."""
    for launch in job.launches:
        if not look.traits(launch).sets_ranks or launch.around or job.kind not in ("shell", "sbatch"):
            continue
        setting = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES")
        words = [*launch.script_words, *([setting.word] if setting is not None else [])]
        for word in words:
            if any(
                expansion.name == "LOCAL_RANK" and expansion.is_set is False and expansion.default is None
                for expansion in word.expansions
            ):
                yield LintFinding(
                    span=word.span,
                    summary=f"$LOCAL_RANK is filled in before {launch.entry or launch.launcher} sets it",
                    happens="It is empty: no GPU is visible, or an option has no value.",
                    fix='Read it in the program: os.environ["LOCAL_RANK"].',
                )


_HOSTS = (
    "#@ node 0\nexport VLLM_HOST_IP={}\nray start --head\nvllm serve m --tensor-parallel-size 16\n"
    "#@ node 1\nexport VLLM_HOST_IP={}\nray start --address=10.1.0.4:6379\n"
)


@rule(
    "A15",
    title="Ray's workers are told the head's address and port",
    source="ray start --help: --address is that of the head, 6379 is the default of --port",
    bad=(
        "ssh n1 ray start --address=localhost:6379\npython train.py\n",
        "ray start --head --port=6380\nssh n1 ray start --address=n0:6379\npython train.py\n",
        "#@ node 0\nH=10.1.0.4\nray start --head\npython t.py\n#@ node 1\nray start --address=$H:6379\n",
        _HOSTS.format("10.1.0.4", "10.1.0.4"),
    ),
    good=(
        "ray start --head --port=6379\nssh n1 ray start --address=n0:6379\npython train.py\n",
        "ray start --head\nssh n1 ray start --address=n0:6379\npython train.py\n",
        _HOSTS.format("10.1.0.4", "10.1.0.5"),
    ),
)
def ray_worker_elsewhere(job: LintJob) -> Iterator[LintFinding]:
    """A worker that is told localhost, or a port on which no head listens, ends, and the cluster stays small."""
    started = [
        invocation for invocation in job.invocations if invocation.program == "ray" and len(invocation.words) > 1
    ]
    starts = [invocation for invocation in started if invocation.words[1].shown == "start"]
    heads = [start for start in starts if any(word.shown == "--head" for word in start.words)]
    ports = {_option(head.words, "--port") or "6379" for head in heads}
    for start in starts:
        address = _option(start.words, "--address")
        if start in heads or address is None:
            continue
        host, _, port = address.rpartition(":")
        away = any(outer.program in ("ssh", "srun", "pdsh", "mpirun", "clush") for outer in start.within) or (
            bool(heads) and all(_elsewhere(job, start, head) for head in heads)
        )
        if away and host in ("localhost", "127.0.0.1"):
            what, fix = f"--address={address} is the worker's own machine", "Write the head's name or address."
        elif away and heads and (name := _empty(start, address)) and re.search(rf"\b{name}=", job.text):
            what, fix = f"--address={address}: ${name} is set on another machine, and empty here", "Set it here too."
        elif away and (same := _same_machine(start, heads)):
            what, fix = f"{same} is the head's own: two machines say that they are one", "Write this machine's address."
        elif len(ports) == 1 and port.isdigit() and port not in ports and next(iter(ports)).isdigit():
            what, fix = f"--address={address}: the head listens on {next(iter(ports))}", "Write the head's port."
        else:
            continue
        yield LintFinding(
            span=start.span,
            summary=what,
            happens="ray start ends: Unable to connect to GCS; the training waits for GPUs that never come.",
            fix=fix,
        )


def _empty(start: Invocation, address: str) -> str:
    """The variable of an address that nothing sets in the other machine's shell, which fills it in. What stands in
    double quotes behind ssh is filled in before, by the shell of this line."""
    outside = {each.name for outer in start.within for word in outer.words for each in word.expansions}
    expansions = (each for word in start.words for each in word.expansions if each.raw in address)
    unset = (each.name for each in expansions if each.is_set is False and each.default is None and each.name)
    return next((name for name in unset if name not in outside), "")


def _same_machine(start: Invocation, heads: list[Invocation]) -> str:
    """What both say of the machine that each is on: ray's --node-ip-address, vLLM's VLLM_HOST_IP."""
    for head in heads:
        own, its = (_option(each.words, "--node-ip-address") for each in (start, head))
        if own is not None and own == its and "$" not in own:
            return f"--node-ip-address={own}"
        hosts = [each.settings.get("VLLM_HOST_IP") for each in (start, head)]
        texts = [host.word.text if host is not None else None for host in hosts]
        if texts[0] and texts[0] == texts[1]:
            return f"VLLM_HOST_IP={texts[0]}"
    return ""


def _elsewhere(job: LintJob, one: Invocation, other: Invocation) -> bool:
    """On another node, or in another pod."""
    nodes = [job.sections[start.section].kind == "node" for start in (one, other) if start.section < len(job.sections)]
    pods = one.manifest_path and other.manifest_path and one.manifest_path != other.manifest_path
    return bool(pods) or (one.section != other.section and nodes == [True, True])


def _option(words: tuple[Word, ...], name: str) -> str | None:
    texts = [word.shown for word in words]
    for at, text in enumerate(texts):
        if text == name and at + 1 < len(texts):
            return texts[at + 1]
        if text.startswith(name + "="):
            return text.partition("=")[2]
    return None
