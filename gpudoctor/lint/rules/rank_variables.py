"""Rules of LOCAL_RANK, RANK, WORLD_SIZE and NODE_RANK in the environment: E01, E02, E03, E05."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, look, processes
from gpudoctor.lint.assignments import span_of, taken_out, with_value
from gpudoctor.lint.frameworks import framework_in
from gpudoctor.lint.model import LintJob, LintLaunch, SetVariable, Word
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import PLAIN

_TUTORIAL = (
    "CUDA_VISIBLE_DEVICES=0,1,2,3 MASTER_ADDR=10.20.0.11 MASTER_PORT=45321 WORLD_SIZE=3 NODE_RANK={} LOCAL_RANK=0"
    " python main.py\n"
)
_RIGHT = "MASTER_ADDR=10.20.0.11 MASTER_PORT=45321 NODE_RANK={} python main.py\n"
_MANUAL = "MASTER_ADDR=10.20.0.11 MASTER_PORT=45321 WORLD_SIZE={} RANK={} LOCAL_RANK=0 python train.py --backend nccl\n"
_SHOWN_RANKS = 3


def variable(launch: LintLaunch, name: str) -> SetVariable | None:
    """A variable that the launch gets from the text (not from --env, which another rule judges)."""
    setting = launch.invocation.settings.get(name)
    return setting if setting is not None and setting.exported and setting.how != "file" else None


def number(launch: LintLaunch, name: str) -> int | None:
    setting = variable(launch, name)
    if setting is None or any(expansion.default is not None for expansion in setting.word.expansions):
        return None
    return allocation.whole(setting.word.text)


@rule(
    "E01",
    title="LOCAL_RANK is not set where Lightning starts the processes",
    source="measured with Lightning 1.5.10, 1.7.4, 1.9.5 and 2.6.6; Lightning PR #19525 corrected the documentation",
    leads_to=("local-rank-preset",),
    bad=(
        "".join(f"#@ node {k}\n" + _TUTORIAL.format(k) for k in range(3)),
        Example(_TUTORIAL.format(0).replace("10.20.0.11", "$master_ip"), "lightning=1.5.10,nodes=3,gpus_per_node=4"),
        Example("LOCAL_RANK=0 python train.py --accelerator gpu --devices 4 --strategy ddp\n", "lightning=2.6"),
        "export MASTER_ADDR=10.20.0.11\nexport MASTER_PORT=45321\nexport NODE_RANK=1\nexport LOCAL_RANK=0\n"
        "python train.py --gpus 4 --num_nodes 2 --strategy ddp\n",
    ),
    good=(
        "".join(f"#@ node {k}\n" + _RIGHT.format(k) for k in range(3)),
        "".join(_MANUAL.format(2, k).replace("LOCAL_RANK=0", f"LOCAL_RANK={k}").replace(" --b", " --b")
                .replace("\n", " &\n") for k in range(2)) + "wait\n",
        "LOCAL_RANK=0 RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 python train.py\n",
        Example("NODE_RANK=0 LOCAL_RANK=0 python train.py --devices 1 --num_nodes 2 --strategy ddp\n", "lightning=2.6"),
    ),
)  # fmt: skip
def local_rank_preset_with_lightning(job: LintJob) -> Iterator[LintFinding]:
    """LOCAL_RANK in the environment tells Lightning (every release from 1.5 to 2.6) that something else starts the
    processes of the node. It then starts none: each node has one rank, and the job waits for the others for ever. The
    line comes from Lightning's own documentation, which was wrong until 2024."""
    one_for_each_gpu = _one_for_each_gpu(job)
    for launch in job.launches:
        setting, node_rank = variable(launch, "LOCAL_RANK"), variable(launch, "NODE_RANK")
        if launch.launcher != "python" or setting is None or launch.invocation.section in one_for_each_gpu:
            continue
        certain = lightning.is_lightning(job, launch)
        by_hand = variable(launch, "RANK") is not None
        if not certain and (node_rank is None or by_hand or framework_in(job, launch) is not None):
            continue
        asked = lightning.devices(job, launch) if certain else None
        here = processes.gpus(job, launch) if asked in (None, "auto") else asked
        if asked == 1 or here == 1 or setting.word.text is None:
            continue
        strategy = lightning.strategy(job, launch)
        spawns = strategy is not None and lightning.SPAWNS.search(strategy) is not None
        unsure = node_rank is None and not isinstance(asked, int)
        world = variable(launch, "WORLD_SIZE")
        yield LintFinding(
            span=span_of(job, setting),
            severity="info" if spawns else "warning" if unsure or by_hand else None,
            summary=f"LOCAL_RANK={setting.word.text} is set for {_framework(job, certain)}, which then starts no"
            " processes itself",
            happens=_what_happens(job, launch, here if isinstance(here, int) else None, strategy, spawns),
            fix="Take LOCAL_RANK away"
            + (
                f", and WORLD_SIZE={world.word.shown}, which counts processes and not nodes"
                if world is not None
                else ""
            )
            + ": Lightning reads MASTER_ADDR, MASTER_PORT and NODE_RANK, and computes the rest from devices and"
            " num_nodes. Or start it by torchrun.",
            edits=(*taken_out(job, setting), *(taken_out(job, world) if world is not None and not by_hand else ())),
        )


def _framework(job: LintJob, certain: bool) -> str:
    return lightning.named(job) if certain else "what looks like Lightning (plain python with NODE_RANK)"


def _one_for_each_gpu(job: LintJob) -> set[int]:
    """The sections with one command for each GPU: several local ranks."""
    ranks: dict[int, set[str]] = {}
    for launch in job.launches:
        setting = variable(launch, "LOCAL_RANK")
        if setting is not None:
            text = setting.word.text if setting.word.text is not None else setting.word.raw
            ranks.setdefault(launch.invocation.section, set()).add(text)
    return {section for section, found in ranks.items() if len(found) > 1}


def _nodes(job: LintJob, launch: LintLaunch) -> int | None:
    told = lightning.num_nodes(job, launch)
    if told is not None:
        return told[0]
    return job.facts.nodes or len(job.node_sections) or number(launch, "WORLD_SIZE")


def _what_happens(job: LintJob, launch: LintLaunch, here: int | None, strategy: str | None, spawns: bool) -> str:
    if spawns:
        return f"{strategy} starts its processes by multiprocessing all the same; LOCAL_RANK has no effect here."
    count = _nodes(job, launch)
    if count and here and count * here > 1:
        shown = [str(index * here) for index in range(min(count, _SHOWN_RANKS))]
        ranks = ", ".join(shown) + (", ..." if count > _SHOWN_RANKS else "")
        who = f"{counted(count, 'process', 'processes')} of {count * here}, rank{'s' if count > 1 else ''} {ranks}"
        end = f"'{count}/{count * here} clients joined'"
    else:
        who, end = "one process on each node", "fewer clients joined than expected"
    text = f"{who[0].upper()}{who[1:]}: they wait for the others until the store gives up after 30 minutes ({end})."
    known = lightning.version(job)
    if lightning.before(job, 1, 6) and strategy is None:
        text += (
            " Where no strategy is given, 1.5 takes ddp_spawn: that trains, and then every node but the first hangs at"
            " the end of fit."
        )
    elif known is None:
        text += " So does every release from 1.5 to 2.6 with ddp."
    return text


@rule(
    "E02",
    title="WORLD_SIZE is the number of ranks",
    source="measured with torch 2.13; kubeflow/trainer#1790",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "".join(f"#@ node {k}\n" + _MANUAL.format(2, k + 1) for k in range(2)),
        PLAIN.replace("WORLD_SIZE=$SLURM_NTASKS", "WORLD_SIZE=$SLURM_NNODES"),
        PLAIN.replace("WORLD_SIZE=$SLURM_NTASKS", "WORLD_SIZE=4"),
    ),
    good=(
        "".join(f"#@ node {k}\n" + _MANUAL.format(2, k) for k in range(2)),
        PLAIN,
        "RANK=0 WORLD_SIZE=9 torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def world_size_is_not_the_ranks(job: LintJob) -> Iterator[LintFinding]:
    """WORLD_SIZE counts processes, not nodes. With env:// it is taken as it stands: a rank beyond it is refused, and
    with one that is too small some ranks build a world of their own."""
    for launch in job.launches:
        setting = variable(launch, "WORLD_SIZE")
        if setting is None:
            continue
        size, rank = number(launch, "WORLD_SIZE"), number(launch, "RANK")
        if look.traits(launch).sets_ranks:
            yield LintFinding(
                span=span_of(job, setting),
                severity="info",
                summary=f"WORLD_SIZE={setting.word.shown} is set, and {launch.entry or launch.launcher} overwrites it",
                happens="It has no effect.",
                fix="It can go.",
            )
        elif launch.launcher == "python" and size is not None and rank is not None and rank >= size:
            yield LintFinding(
                span=span_of(job, setting),
                summary=f"RANK={rank} with WORLD_SIZE={size}: ranks go from 0 to {size - 1}",
                happens=f"Rank {rank} is refused (the rank should be less than the world size), and the others wait for"
                " it." if size > 0 else "No rank can join.",
                fix="Write the number of all processes, nodes times GPUs a node, and ranks from 0.",
            )  # fmt: skip
        elif launch.launcher == "srun" and not lightning.is_lightning(job, launch):
            yield from _under_srun(job, launch, setting)


def _under_srun(job: LintJob, launch: LintLaunch, setting: SetVariable) -> Iterator[LintFinding]:
    tasks = allocation.tasks(job, launch)
    rank = variable(launch, "RANK")
    by_task = rank is not None and any(
        origin.name == "SLURM_PROCID" for origin in look.origins(rank.word, launch.invocation)
    )
    told = allocation.whole(allocation.resolved(job, setting.word))
    if tasks is None or told is None or told == tasks or (rank is not None and not by_task):
        return
    yield LintFinding(
        span=span_of(job, setting),
        severity=None if by_task else "warning",  # the program takes its rank otherwise, and maybe the size too
        summary=f"WORLD_SIZE={setting.word.raw} is {told}, and srun starts {counted(tasks, 'task')}",
        happens=f"Ranks {told} to {tasks - 1} are refused."
        if told < tasks
        else "The ranks wait for others that no task is.",
        fix="Write WORLD_SIZE=$SLURM_NTASKS, in the task's shell.",
        edits=with_value(setting, "$SLURM_NTASKS") if look.in_a_task_shell(launch) and setting.how != "export" else (),
    )


@rule(
    "E03",
    title="Lightning before 1.2 is not told WORLD_SIZE beside NODE_RANK",
    needs="facts",
    source="Lightning 0.9 to 1.1, accelerator_connector; several threads",
    leads_to=("local-rank-preset",),
    bad=(
        Example("MASTER_ADDR=10.20.0.11 MASTER_PORT=45321 WORLD_SIZE=2 NODE_RANK=1 python train.py --gpus 4\n",
                "lightning=1.0.8"),
        Example("WORLD_SIZE=8 GROUP_RANK=0 python train.py --gpus 4 --num_nodes 2\n", "lightning=1.1"),
    ),
    good=(
        Example("MASTER_ADDR=10.20.0.11 MASTER_PORT=45321 NODE_RANK=1 python train.py --gpus 4\n", "lightning=1.0.8"),
        Example("MASTER_ADDR=10.20.0.11 WORLD_SIZE=2 NODE_RANK=1 python train.py --gpus 4\n", "lightning=1.3"),
    ),
)  # fmt: skip
def node_rank_taken_for_torchelastic(job: LintJob) -> Iterator[LintFinding]:
    """Lightning 0.9 to 1.1 takes WORLD_SIZE beside NODE_RANK or GROUP_RANK for a start by torchelastic: it starts no
    processes, and the job waits for ranks that nobody starts."""
    if not lightning.before(job, 1, 2) or lightning.before(job, 0, 9):
        return
    for launch in job.launches:
        world = variable(launch, "WORLD_SIZE")
        node = variable(launch, "NODE_RANK") or variable(launch, "GROUP_RANK")
        if launch.launcher != "python" or world is None or node is None:
            continue
        yield LintFinding(
            span=span_of(job, world),
            summary=f"WORLD_SIZE and {node.name} are set for {lightning.named(job)}, which takes that for torchelastic",
            happens="Lightning starts no processes of its own, and the job waits for the missing ranks.",
            fix="Take WORLD_SIZE away; Lightning computes it.",
            edits=taken_out(job, world),
        )


_CONSTANT_RANK = lazy_re(r"--(local[-_]rank|rank|global[-_]rank)(?:=(\d+))?")


@rule(
    "E05",
    title="The workers of a launcher read their own rank",
    source="several threads",
    leads_to=("duplicate-gpu", "launcher-world-mismatch"),
    bad=(
        "torchrun --standalone --nproc-per-node=4 train.py --local_rank 0\n",
        "deepspeed --num_gpus=4 train.py --deepspeed ds.json --local_rank=0\n",
        PLAIN.replace("LOCAL_RANK=$SLURM_LOCALID", "LOCAL_RANK=0"),
        "mpirun -np 8 -H n1:4,n2:4 -bind-to none -x RANK=0 -x MASTER_ADDR=10.20.0.11 python train.py --rank 0\n",
    ),
    good=(
        "torchrun --standalone --nproc-per-node=4 train.py --local_rank -1\n",
        "torchrun --standalone --nproc-per-node=1 train.py --local_rank 0\n",
        PLAIN,
        PLAIN.replace("--gres=gpu:4", "--gpus-per-task=1").replace("LOCAL_RANK=$SLURM_LOCALID", "LOCAL_RANK=0"),
    ),
)
def constant_rank_for_all_workers(job: LintJob) -> Iterator[LintFinding]:
    """A launcher starts one command line several times. A rank that is written into it is the same for all of them: all
    take GPU 0, or all want to be rank 0."""
    for launch in job.launches:
        count = processes.per_node(job, launch) if launch.launcher != "mpirun" else _mpi_ranks(launch)
        kind = look.traits(launch)
        if not kind.sets_ranks and not kind.a_node and launch.launcher not in ("srun", "mpirun"):
            continue
        if count is None and processes.started(job, launch).number == "gpus":
            count = 2
        if launch.launcher == "deepspeed" and count is None:
            count = processes.gpus(job, launch) or 2
        if count is None or count < 2:
            continue
        for written, word, value, edits in _constants(job, launch):
            local = "local" in written.lower()
            nodes = look.nnodes(launch)
            if not local and written.startswith("--") and int(value) >= count * (nodes[1] if nodes is not None else 1):
                continue  # no rank of this world: `--rank 16` of an adapter
            if local and allocation.sees_own_gpus_only(job, launch) == 1:
                continue
            yield LintFinding(
                span=word.span,
                summary=f"{written} is {value} for all {count} processes that {launch.entry or launch.launcher} starts"
                " on a node",
                happens="All processes of a node take the same GPU: out of memory, or NCCL's 'Duplicate GPU detected'."
                if local
                else "All processes want to be the same rank: EADDRINUSE, or the rendezvous waits for the others.",
                fix=f"Take it away and let the script read {'LOCAL_RANK' if local else 'RANK'} from the environment.",
                edits=edits,
            )


def _mpi_ranks(launch: LintLaunch) -> int | None:
    return allocation.whole(launch.text("np"))


def _constants(job: LintJob, launch: LintLaunch) -> Iterator[tuple[str, Word, str, tuple[Edit, ...]]]:
    words = launch.script_words
    for index, word in enumerate(words):
        match = _CONSTANT_RANK.fullmatch(word.shown)
        if match is None:
            continue
        value = match[2]
        if value is None and index + 1 < len(words):
            text = words[index + 1].text
            value = (
                text if text is not None and re.fullmatch(r"\d+", text) and not words[index + 1].expansions else None
            )
        if value is not None and not word.expansions:
            yield f"--{match[1]}", word, value, ()
    if launch.launcher in ("srun", "mpirun"):
        for name in ("RANK", "LOCAL_RANK"):
            setting = variable(launch, name)
            if setting is None or setting.word.expansions or allocation.whole(setting.word.text) is None:
                continue
            slurm = {"RANK": "$SLURM_PROCID", "LOCAL_RANK": "$SLURM_LOCALID"}[name]
            in_task = launch.launcher == "srun" and look.in_a_task_shell(launch) and setting.how != "export"
            yield name, setting.word, setting.word.shown, with_value(setting, slurm) if in_task else ()
