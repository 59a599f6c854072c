"""Rules of a training program beside its start: T01 to T07."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.rank_variables import BY_LAUNCHER, OF_A_GROUP, OF_TORCHRUN
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes, spawning
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.programs import Program, program_of, programs
from gpudoctor.lint.python_code import argument, codes_and_starts
from gpudoctor.lint.python_text import without_imports
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.worlds import program_reads_rank
from gpudoctor.lint.understood import whole

_HEAD = "import os\nimport torch\nimport torch.distributed as dist\n"
_STARTED = "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n"
_PROGRAM = "#@ file train.py\n" + _HEAD
_INIT = "dist.init_process_group('nccl')\nrank = dist.get_rank()\n"
_SPAWNS = _PROGRAM + "import torch.multiprocessing as mp\n"
_GUARD = "if __name__ == '__main__':\n    "
_LOADER = (
    _PROGRAM
    + _INIT
    + "from torch.utils.data import DataLoader\nfrom torch.nn.parallel import DistributedDataParallel\n"
    "model = DistributedDataParallel(net)\nloader = DataLoader(data, batch_size=8, shuffle=True{})\n"
)
_ACCELERATE = "#@ file train.py\nfrom accelerate import Accelerator\na = Accelerator()\n"
_BY_FRAMEWORK = (
    "lightning",
    "pytorch_lightning",
    "accelerate",
    "transformers",
    "deepspeed",
    "ray",
    "composer",
    "megatron",
)
OF_RANKS = frozenset(
    (
        *OF_A_GROUP,
        *["NODE_RANK", "NPROC_PER_NODE", "NNODES", "WORLD_RANK", "NUM_NODES"],
    )
)
"""Names that programs take from launchers; any other one may be anybody's."""


@rule(
    "T01",
    title="All ranks come to a collective",
    source="torch.distributed: a collective is called by every process of the group",
    leads_to=("rank0-only-collective",),
    bad=(
        _PROGRAM + _INIT + "if rank == 0:\n    torch.save(net, 'a.pt')\n    dist.barrier()\n" + _STARTED,
        _PROGRAM + _INIT + "def log(x):\n    if dist.get_rank() == 0:\n        dist.all_reduce(x)\n" + _STARTED,
    ),
    good=(
        _PROGRAM + _INIT + "if rank == 0:\n    torch.save(net, 'a.pt')\ndist.barrier()\n" + _STARTED,
        _PROGRAM + _INIT + "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n" + _STARTED,
        _PROGRAM + _INIT + "if rank == 0:\n    dist.gather(x, out)\nelse:\n    dist.gather(x)\n" + _STARTED,
        _PROGRAM
        + _INIT
        + "def first(local_rank):\n    if local_rank not in [-1, 0]:\n        dist.barrier()\n    yield\n"
        "    if local_rank == 0:\n        dist.barrier()\n" + _STARTED,
    ),
)
def collective_on_one_rank(job: LintJob) -> Iterator[LintFinding]:
    """A collective below `if rank == 0` is called by one rank. It waits for the others until the time-out, or meets
    their next collective, and the numbers are wrong."""
    for program in programs(job):
        for place in program.on_one_rank:
            yield LintFinding(
                span=place.span,
                summary=f"{place.words.split('(')[0]}() stands below `if {place.inside}`: one rank alone comes to it",
                happens="It waits for the other ranks until the time-out, or meets another collective of theirs.",
                fix="Move it out of the branch, so that every rank calls it.",
            )


@rule(
    "T02",
    title="A program under torchrun takes its local rank from the environment",
    source="torch/distributed/run.py: torchrun hands no --local-rank on; it sets LOCAL_RANK",
    leads_to=("duplicate-gpu",),
    bad=(
        _PROGRAM + "p.add_argument('--local_rank', type=int, default=0)\na = p.parse_args()\n"
        "torch.cuda.set_device(a.local_rank)\n" + _STARTED,
        _PROGRAM + "p.add_argument('--local_rank', type=int, required=True)\na = p.parse_args()\n" + _STARTED,
        _PROGRAM + "p.add_argument('--local-rank', type=int)\na = p.parse_args()\nnet.to(a.local_rank)\n" + _STARTED,
        _PROGRAM + "p.add_argument('--local_rank', type=int, default=0)\na = p.parse_args()\n"
        "torch.cuda.set_device(a.local_rank)\n#@ every node\nmpirun -np 8 -H a:4,b:4 python train.py\n",
    ),
    good=(
        _PROGRAM + "p.add_argument('--local_rank', type=int, default=int(os.environ.get('LOCAL_RANK', 0)))\n"
        "a = p.parse_args()\ntorch.cuda.set_device(a.local_rank)\n" + _STARTED,
        _PROGRAM + "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n" + _STARTED,
    ),
)
def local_rank_not_handed_over(job: LintJob) -> Iterator[LintFinding]:
    """torch.distributed.launch appended --local_rank to the program's arguments. torchrun does not: the default of the
    argument stands on every rank."""
    for launch in job.launches:
        others = launch.launcher in ("srun", "mpirun") and (processes.per_node(job, launch) or 0) > 1
        others = others and allocation.sees_own_gpus_only(job, launch) is None
        program = program_of(job, launch) if launch.launcher in look.TORCHRUN or others else None
        if program is None or (launch.launcher == "torch.distributed.launch" and launch.option("use-env") is None):
            continue
        option = next((each for each in ("--local_rank", "--local-rank") if each in program.options), None)
        used = re.search(r"\.local_rank\b", program.text)
        arguments = program.calls.get("add_argument", ()) if option is not None else ()
        wanted = next((place for place in arguments if option is not None and option in place.words
                       and re.search(r"required\s*=\s*True", place.words)), None)  # fmt: skip
        handed = any(word.shown.startswith(("--local_rank", "--local-rank")) for word in launch.script_words)
        if wanted is not None and not handed:
            yield LintFinding(
                span=wanted.span,
                summary=f"the program requires {option}, which {_starter(launch)} does not hand over: it sets"
                f" {_local_of(launch)}",
                happens=f"argparse ends every rank: the following arguments are required: {option}.",
                fix=f'Write default=int(os.environ["{_local_of(launch)}"]) instead of required=True.',
            )
            continue
        if option is None or used is None or handed or program.names(*_LOCAL, "get_node_local_rank"):
            continue
        if program.names(*_BY_FRAMEWORK):
            continue  # they read the environment themselves
        place = next((place for place in program.calls["add_argument"] if option in place.words), None)
        if place is None:
            continue
        yield LintFinding(
            span=place.span,
            summary=f"the program takes {option}, which {_starter(launch)} does not hand over, and does not read"
            f" {_local_of(launch)}",
            happens="The argument has its default on every rank: all of them take one GPU (NCCL: Duplicate GPU).",
            fix=f'Take it from the environment: int(os.environ["{_local_of(launch)}"]).',
        )


_LOCAL = (*(names.local_rank for names in BY_LAUNCHER), "PMI_LOCAL_RANK")


def _starter(launch: LintLaunch) -> str:
    return launch.launcher if launch.launcher in ("srun", "mpirun") else "torchrun"


def _local_of(launch: LintLaunch) -> str:
    return {"srun": "SLURM_LOCALID", "mpirun": "OMPI_COMM_WORLD_LOCAL_RANK"}.get(launch.launcher, "LOCAL_RANK")


@rule(
    "T03",
    title="Every variable that a program wants is set by its launcher or by the text",
    source="local_elastic_agent.py; srun(1) and mpirun(1) set names of their own",
    bad=(
        _PROGRAM + "node = int(os.environ['NODE_RANK'])\n" + _STARTED,
        _PROGRAM + "rank = int(os.environ['RANK'])\n#@ every node\nmpirun -n 8 python train.py\n",
    ),
    good=(
        _PROGRAM + "rank = int(os.environ['RANK'])\n" + _STARTED,
        _PROGRAM + "node = int(os.environ['NODE_RANK'])\n" + _STARTED.replace("torchrun", "NODE_RANK=0 torchrun"),
        _PROGRAM + "os.environ['RANK'] = os.environ['SLURM_PROCID']\nrank = os.environ['RANK']\n#@ every node\n"
        "srun -n 8 python train.py\n",
    ),
)
def variable_nobody_sets(job: LintJob) -> Iterator[LintFinding]:
    """os.environ["NAME"] ends a program whose environment has no NAME."""
    told = {finding.span for finding in program_reads_rank.judge(job)}  # E15, at the start
    for launch in job.launches if not job.has_unread_source else ():
        if launch.invocation.span in told:
            continue
        if launch.launcher not in (*look.TORCHRUN, "srun", "mpirun") or look.from_platform(job, launch):
            continue
        program = program_of(job, launch)
        if launch.launcher == "mpirun" and program is not None and "deepspeed.init_distributed(" in program.text:
            continue  # it asks MPI, and sets them
        known = OF_TORCHRUN if launch.launcher in look.TORCHRUN else frozenset({"MASTER_ADDR", "MASTER_PORT"})
        lacking = [
            place
            for place in sorted(program.wants if program is not None else (), key=lambda each: each.span.start)
            if (place.words in OF_RANKS - known or (place.words == "CUDA_VISIBLE_DEVICES" and _is_plain(job, launch)))
            and not _is_handled(program, place.words)
            and not re.search(rf"\b{place.words}\b", _shell(job))
        ]
        if lacking:  # at the first of them it ends
            first, names = lacking[0], " and ".join(dict.fromkeys(place.words for place in lacking))
            instead = _instead(launch.launcher, first.words)
            yield LintFinding(
                span=first.span,
                summary=f"the program wants {names}, which {launch.launcher} does not set, nor anything in this text",
                happens=f"Every rank ends with KeyError: '{first.words}'.",
                fix=f"Set it before the start, or read what {launch.launcher} sets: {instead}.",
            )


def _is_plain(job: LintJob, launch: LintLaunch) -> bool:
    """Whether no scheduler and no container stands around it, which may name the GPUs."""
    return job.kind == "shell" and launch.launcher in look.TORCHRUN and not launch.invocation.within


def _is_handled(program: Program | None, name: str) -> bool:
    """It is set by the program itself, or looked for before it is read."""
    text = program.text if program is not None else ""
    return bool(
        re.search(
            rf"environ\[[\"']{name}[\"']\]\s*=[^=]|[\"']{name}[\"'] (?:not )?in os\.environ|except KeyError", text
        )
        or re.search(rf"(?:setdefault|putenv|update)\([^)]*{name}", text)
    )


def _shell(job: LintJob) -> str:
    """The text without its Python files."""
    return "\n".join(section.text for section in job.sections if not section.name.endswith(".py"))


def _instead(launcher: str, name: str) -> str:
    if launcher == "srun":
        return {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID",
                "NODE_RANK": "SLURM_NODEID"}.get(name, "SLURM_*")  # fmt: skip
    if launcher == "mpirun":
        return f"OMPI_COMM_WORLD_{name.removeprefix('WORLD_')}"
    return "GROUP_RANK" if name == "NODE_RANK" else "RANK, LOCAL_RANK and WORLD_SIZE"


@rule(
    "T04",
    title="Ranks are started once: by the launcher or by the program",
    source="torch.multiprocessing.spawn; torch/distributed/run.py",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _SPAWNS + "mp.spawn(main, nprocs=torch.cuda.device_count())\n" + _STARTED,
        _SPAWNS + "mp.spawn(main, args=(4,), nprocs=4, join=True)\n" + _STARTED.replace("torchrun", "torchrun -t 3"),
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python train.py\n"
        + _SPAWNS
        + "os.environ['MASTER_ADDR'] = 'node1'\nmp.spawn(main, nprocs=8)\n",
    ),
    good=(
        _SPAWNS + _GUARD + "mp.spawn(main, nprocs=4)\n#@ every node\npython train.py\n",
        _SPAWNS + "if __name__ == '__main__' and 'RANK' not in os.environ:\n    mp.spawn(main, nprocs=4)\n" + _STARTED,
    ),
)
def spawn_below_a_launcher(job: LintJob) -> Iterator[LintFinding]:
    """torchrun starts the ranks, or srun a task for each; a program that spawns starts as many again in each."""
    for code, launches in codes_and_starts(job):
        for launch in launches:
            word, each = _processes(job, launch)
            for call in spawning.spawn_calls(code) if each > 1 else ():
                node = argument(call.call, "nprocs", 2)
                if node is None or call.nprocs == 1 or spawning.is_for_launchers(code, call.call):
                    continue
                own = spawning.processes(job, code, call, (launch,))
                many = f"{each} x {own} = {each * own}" if own else f"{each} times the ranks"
                yield LintFinding(
                    span=code.span(call.call),
                    summary=f"{word} starts {each} processes on a node, and each of them spawns "
                    + (counted(own, "rank") if own else "ranks")
                    + f" of its own: {many}",
                    happens=f"The same ranks are there {each} times: they take each other's port and GPUs.",
                    fix="Start it by plain python, once on a node, or take the spawn out and read LOCAL_RANK."
                    if word != "srun"
                    else "Write --ntasks-per-node=1, or take the spawn out and read SLURM_PROCID and SLURM_LOCALID.",
                )


def _processes(job: LintJob, launch: LintLaunch) -> tuple[str, int]:
    """Who starts several processes of a program on a node, and how many."""
    if launch.launcher in look.TORCHRUN:
        return launch.launcher, whole(launch.option("nproc-per-node")) or 0
    return ("srun", allocation.tasks_per_node(job, launch) or 0) if look.sruns(launch) else ("", 0)


@rule(
    "T05",
    title="spawn is told how many ranks to start",
    source="torch.multiprocessing.spawn: nprocs is 1 unless it is given",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _SPAWNS + "dist.init_process_group('nccl', rank=0, world_size=4)\nmp.spawn(main, args=(4,))\n",
        _SPAWNS + "dist.init_process_group('gloo', rank=0, world_size=8)\nmp.spawn(main, (8,), join=True)\n",
    ),
    good=(
        _SPAWNS
        + "dist.init_process_group('nccl', rank=0, world_size=4)\n"
        + _GUARD
        + "mp.spawn(main, args=(4,), nprocs=4)\n",
        _SPAWNS + "dist.init_process_group('nccl', rank=0, world_size=4)\n" + _GUARD + "mp.spawn(main, (4,), 4)\n",
    ),
)
def spawn_without_nprocs(job: LintJob) -> Iterator[LintFinding]:
    """mp.spawn starts one process where it is not told more; the group waits for the rest of its world."""
    for program in programs(job):
        several = any(
            re.search(r"world_size\s*=(?!\s*1\b)", place.words) for place in program.calls.get("init_process_group", ())
        )
        if not several or not program.names("mp", "multiprocessing"):
            continue
        for call in job.trainers:
            if call.name == "spawn" and "nprocs" not in call.arguments and call.span.line in _lines(program):
                yield LintFinding(
                    span=call.span,
                    summary="spawn without nprocs starts 1 process, and the group is made for several",
                    happens="init_process_group waits for ranks that nobody starts.",
                    fix="Add nprocs=WORLD_SIZE_OF_THIS_NODE.",
                )


def _lines(program: Program) -> set[int]:
    return {place.span.line for name in ("spawn", "start_processes") for place in program.calls.get(name, ())}


_DIVIDES = lazy_re(
    r"\b(?:\w*[sS]ampler|IterableDataset|Subset|islice|webdataset|wds|\w*(?:split|shard|chunk|partition)\w*)\b|"
    r"::\s*\w|(?:%|//)\s*\(?[\w.]*(?:world|size|replicas|procs|ranks|gpus)",
    re.IGNORECASE,
)
"""Words for a part of the data, steps of a slice, and divisions by the number of ranks."""


@rule(
    "T06",
    title="Each rank has a part of the data of its own",
    severity="warning",
    source="torch.utils.data.distributed.DistributedSampler",
    bad=(
        _LOADER.format("") + _STARTED,
        _LOADER.format(", num_workers=4") + _STARTED.replace("=4 ", "=8 "),
        _LOADER.format("").replace("dist.get_rank()\n", "dist.get_rank()\nprint(dist.get_world_size())\n") + _STARTED,
        _LOADER.format("").replace("import torch\n", "import torch\nfrom torch.utils.data import DistributedSampler\n")
        + _STARTED,
    ),
    good=(
        _LOADER.format("").replace("shuffle=True", "sampler=DistributedSampler(data)") + _STARTED,
        _LOADER.format("").replace("(data,", "(data[rank :: dist.get_world_size()],") + _STARTED,
        _LOADER.format("").replace("import torch\n", "import torch\nfrom accelerate import Accelerator\n") + _STARTED,
    ),
)
def loader_without_sampler(job: LintJob) -> Iterator[LintFinding]:
    """DistributedDataParallel averages gradients and divides no data: without a sampler every rank goes through all of
    it, and with one seed all see the same batches."""
    for program in programs(job):
        wraps = program.calls.get("DistributedDataParallel", ()) or program.calls.get("DDP", ())
        if not wraps or program.names(*_BY_FRAMEWORK):
            continue
        used = without_imports(program.text)
        if _DIVIDES.search(used):
            continue
        for place in program.calls.get("DataLoader", ()):
            if re.search(r"\bshuffle\s*=\s*True\b", place.words):
                yield LintFinding(
                    span=place.span,
                    summary="a DataLoader that shuffles for itself on every rank, and no DistributedSampler",
                    happens="Every rank goes through all of the data; with one seed all of them see the same batches.",
                    fix="Give it sampler=DistributedSampler(data), and call sampler.set_epoch(epoch).",
                )
                break


@rule(
    "T07",
    title="Under plain python Accelerator() is one process",
    needs="facts",
    severity="warning",
    source="accelerate/state.py: without a launcher's variables there is one process",
    bad=(
        Example(_ACCELERATE + "#@ every node\npython train.py\n", "gpus_per_node=8"),
        Example(_ACCELERATE + "#@ every node\npython3 train.py --lr 1\n", "gpus_per_node=2"),
    ),
    good=(
        Example(
            _ACCELERATE + "#@ every node\naccelerate launch --multi_gpu --num_processes 8 train.py\n", "gpus_per_node=8"
        ),
        Example(_ACCELERATE + "#@ every node\nCUDA_VISIBLE_DEVICES=0 python train.py\n", "gpus_per_node=8"),
    ),
)
def accelerator_under_plain_python(job: LintJob) -> Iterator[LintFinding]:
    """Accelerator() reads what a launcher has set. Under plain python it trains on one GPU."""
    gpus = job.facts.gpus_per_node or 0
    for launch in job.launches:
        if launch.launcher != "python" or launch.around or gpus < 2 or look.from_platform(job, launch):
            continue
        program = program_of(job, launch)
        made = program.first("Accelerator") if program is not None else None
        alone = {"CUDA_VISIBLE_DEVICES", "RANK", "LOCAL_RANK"} & set(launch.invocation.settings)
        if program is None or made is None or alone or program.names("notebook_launcher", "spawn", "debug_launcher"):
            continue
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"plain python starts a program of accelerate: 1 process, and the node has {counted(gpus, 'GPU')}",
            happens=f"It trains on one GPU; {counted(gpus - 1, 'other')} idle.",
            fix=f"Start it by accelerate launch --multi_gpu --num_processes {gpus}.",
        )
