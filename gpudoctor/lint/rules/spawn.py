"""Rules of programs that start their ranks by torch.multiprocessing.spawn: T08, T09."""

import ast
from collections.abc import Iterator

from gpudoctor.lint import look, spawning
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.spawning import SpawnCall
from gpudoctor.lint.understood import whole

_HEAD = (
    "#@ file train.py\nimport os\nimport torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
)
_ADDRESS = "os.environ['MASTER_ADDR'] = '10.20.0.11'\nos.environ['MASTER_PORT'] = '29411'\n"
_WORK = "def work(gpu, args):\n    dist.init_process_group('nccl', rank={}, world_size={})\n    train(gpu)\n"
_MAIN = "mp.spawn(work, nprocs=8, args=(args,))\n"
_TWO = "#@ node 0\npython train.py\n#@ node 1\npython train.py\n"
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\nsrun python train.py\n"
)
_NODE_RANK = "int(os.environ['NODE_RANK']) * 8 + gpu"


@rule(
    "T08",
    title="On several nodes, ranks that a program spawns are numbered through all of them",
    source="torch.multiprocessing.spawn: each call numbers its processes from 0; tried with torch 2.13",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _HEAD + _ADDRESS + _WORK.format("gpu", 16) + _MAIN + _TWO,
        Example(_HEAD + _ADDRESS + _WORK.format("gpu", 16) + _MAIN + "#@ every node\npython train.py\n", "nodes=2"),
        _HEAD + _ADDRESS + _WORK.format("gpu", "2 * 8") + _MAIN.replace("args=(args,)", "args=(1,)") + _TWO,
        _BATCH + _HEAD + _ADDRESS + _WORK.format("gpu", 16) + _MAIN,
    ),
    good=(
        _HEAD + _ADDRESS + _WORK.format(_NODE_RANK, 16) + _MAIN + _TWO.replace("python", "NODE_RANK=0 python", 1),
        _HEAD + _ADDRESS + _WORK.format("gpu", 8) + _MAIN + "#@ every node\npython train.py\n",
    ),
)
def spawned_ranks_come_twice(job: LintJob) -> Iterator[LintFinding]:
    """mp.spawn hands each process its number on this node, from 0. Taken for the rank, the same ranks are there on
    every node, and the rest of the world nowhere."""
    for code, launches in codes_and_starts(job):
        for call in spawning.spawn_calls(code):
            place = spawning.rank_of_node(code, call)
            nodes = _nodes(job, code, call, launches)
            if place is None or nodes is None or nodes < 2:
                continue
            per_node = spawning.processes(job, code, call, launches)
            world = nodes * per_node if per_node else None
            written = (
                f"rank={code.words(place)}" if isinstance(code.parents.get(place), ast.keyword) else code.words(place)
            )
            twice, never = _told(nodes, per_node)
            number = "SLURM_NODEID" if any(look.sruns(launch) for launch in launches) else "NODE_RANK"
            yield LintFinding(
                span=code.span(place),
                summary=f"{written[:60]}, the number on this node, with {nodes} nodes: {twice}, and {never}",
                happens="Ranks that come twice take each other's place: NCCL refuses them (already checked in), or all"
                " wait for the ranks that nobody starts until the time-out.",
                fix=f'Write rank = int(os.environ["{number}"]) * {per_node or "nprocs"} + {call.local or "gpu"}, and'
                f" world_size={world or 'nodes * nprocs'}"
                + (f" ({nodes} nodes x {per_node} = {world} processes)" if world else "")
                + (", and set NODE_RANK on each node, from 0." if number == "NODE_RANK" else "."),
            )


def _told(nodes: int, each: int | None) -> tuple[str, str]:
    times = "twice" if nodes == 2 else f"{nodes} times"
    if not each:
        return f"the ranks from 0 come {times}", "those of the other nodes never"
    one = "rank 0 comes" if each == 1 else f"ranks 0-{each - 1} come"
    last = nodes * each - 1
    return f"{one} {times}", f"{each}-{last} never" if each < last else f"{each} never"


def _nodes(job: LintJob, code: PythonCode, call: SpawnCall, launches: tuple[LintLaunch, ...]) -> int | None:
    """The nodes on which it is started, of the text, the facts, or the world that the program itself names."""
    for launch in launches:
        if launch.launcher in look.TORCHRUN:
            nodes = look.nnodes(launch) if whole(launch.option("nproc-per-node")) in (None, 1) else None
            return nodes[1] if nodes is not None else None  # T04 tells of more than one process a node
        in_job = look.srun_nodes(job, launch) if look.sruns(launch) else None
        if in_job:
            return in_job
    sections = {look.section_node(job, launch) for launch in launches} - {None}
    if len(sections) > 1:
        return len(sections)
    told_nodes = spawning.nodes_told(code, launches)
    if told_nodes is not None and told_nodes > 1:
        return told_nodes
    if job.facts.nodes is not None:
        return job.facts.nodes
    world, per_node = spawning.world_size(code, call), call.nprocs
    return world // per_node if world and per_node and world > per_node and world % per_node == 0 else None


@rule(
    "T09",
    title="A program that spawns its ranks tells them where they meet",
    source="torch/distributed/rendezvous.py: env:// reads MASTER_ADDR and MASTER_PORT, which a launcher sets",
    bad=(
        _HEAD + _WORK.format("gpu", 8) + _MAIN + "#@ every node\npython train.py\n",
        _HEAD + "os.environ['MASTER_PORT'] = '29411'\n" + _WORK.format("gpu", 8) + _MAIN
        + "#@ node 0\nOMP_NUM_THREADS=4 python train.py\n",
    ),
    good=(
        _HEAD + _ADDRESS + _WORK.format("gpu", 8) + _MAIN + "#@ every node\npython train.py\n",
        _HEAD + _WORK.format("gpu", 8) + _MAIN
        + "#@ every node\nMASTER_ADDR=127.0.0.1 MASTER_PORT=29411 python train.py\n",
        _HEAD + _WORK.format("gpu", "8, init_method='tcp://127.0.0.1:29411'") + _MAIN
        + "#@ every node\npython train.py\n",
    ),
)  # fmt: skip
def spawn_without_master_address(job: LintJob) -> Iterator[LintFinding]:
    """init_process_group without an init_method takes the address of rank 0 from MASTER_ADDR and MASTER_PORT. mp.spawn
    sets neither."""
    for code, launches in codes_and_starts(job):
        if any(launch.launcher not in ("python", "srun") or look.from_platform(job, launch) for launch in launches):
            continue
        for call in spawning.spawn_calls(code):
            init = next(iter(spawning.inits(code, call)), None)
            if init is None or not _by_environment(init.call) or spawning.sets_more(code):
                continue
            lacking = [
                name
                for name in ("MASTER_ADDR", "MASTER_PORT")
                if f'"{name}"' not in code.text
                and f"'{name}'" not in code.text
                and f"{name}=" not in code.text
                and name not in job.facts.variables
                and not any(name in launch.invocation.settings for launch in launches or job.launches)
            ]
            if not lacking:
                continue
            lines = {"MASTER_ADDR": '"127.0.0.1"', "MASTER_PORT": '"29500"'}
            yield LintFinding(
                span=code.span(init.call),
                severity=None if launches else "warning",
                summary=f"nothing sets {' and '.join(lacking)}, which init_process_group reads here",
                happens="Every rank ends: ValueError: Error initializing torch.distributed using env:// rendezvous:"
                f" environment variable {lacking[0]} expected, but not set.",
                fix="Write before the spawn: "
                + "; ".join(f'os.environ["{name}"] = {lines[name]}' for name in lacking)
                + ". On several nodes MASTER_ADDR is the first node's address, the same on all.",
            )
            break


def _by_environment(call: ast.Call) -> bool:
    """Whether it is certain that env:// is what is asked."""
    if any(keyword.arg is None for keyword in call.keywords) or argument(call, "store") is not None:
        return False
    method = argument(call, "init_method", 1)
    return method is None or constant(method) == "env://"
