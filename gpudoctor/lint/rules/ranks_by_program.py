"""Rules of ranks and worlds that a program names itself, by constants, arguments and variables: T37, T38."""

import ast
import re
from collections.abc import Iterator, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import rank_counts
from gpudoctor.lint.courses.members import members
from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.spawning import set_variable, spawn_calls
from gpudoctor.lint.told_options import world_of
from gpudoctor.lint.understood import nodes_of

_SPAWN = (
    "#@ file train.py\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\ndef work(rank, world):\n"
    "    dist.init_process_group('nccl', init_method='tcp://127.0.0.1:29500', rank=rank, world_size={})\n"
    "if __name__ == '__main__':\n    mp.spawn(work, args=({},), nprocs=4)\n#@ every node\npython train.py\n"
)


@rule(
    "T37",
    id="ranks-of-the-program",
    title="Spawned ranks are as many as their world",
    source="torch/distributed/rendezvous.py: tcp:// waits for world_size ranks; torch/multiprocessing/spawn.py",
    leads_to=("rendezvous-incomplete", "launcher-world-mismatch"),
    bad=(_SPAWN.format("world", 6), _SPAWN.format("world", 8), _SPAWN.format(1, 2)),
    good=(
        _SPAWN.format("world", 8).replace("127.0.0.1", "n01"),
        _SPAWN.format("world", 4),
        _SPAWN.format(8, 8).replace("nprocs=4", "nprocs=8"),
    ),
)
def world_of_spawned_ranks(job: LintJob) -> Iterator[LintFinding]:
    """spawn hands the world size on in its args. Where it is not the number of processes, times the nodes, ranks are
    waited for or refused."""
    for code, starts in codes_and_starts(job):
        yield from _of_spawn(job, code, starts)


_AT_HOME = lazy_re(r"tcp://(?:127\.|localhost)|MASTER_ADDR[\"']\]?\s*[,=]\s*[\"'](?:127\.|localhost)")


def _of_spawn(job: LintJob, code: PythonCode, starts: Sequence[LintLaunch]) -> Iterator[LintFinding]:
    """spawn hands the world size on in args: it is nprocs, times the nodes."""
    if len(starts) > 1 or job.node_sections or (job.facts.nodes or 1) > 1:
        return
    values = PythonValues(code, starts[0] if starts else None)
    for spawned in spawn_calls(code):
        count = values.number(argument(spawned.call, "nprocs", 2))
        given = argument(spawned.call, "args", 1)
        function = spawned.function
        if count is None or function is None or code.is_conditional(spawned.call):
            continue
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        for call in code.calls:
            if code.torch_name(call.func) != "init_process_group" or code.scope_of(call) is not function:
                continue
            world, rank = argument(call, "world_size", 3), argument(call, "rank", 4)
            if not isinstance(rank, ast.Name) or not names or rank.id != names[0]:
                continue
            if isinstance(world, ast.Name) and world.id in names[1:] and isinstance(given, ast.Tuple):
                place = names.index(world.id) - 1
                world = given.elts[place] if place < len(given.elts) else None
            number = values.number(world)
            at_home = _AT_HOME.search(code.text) is not None
            if number is None or number == count or (number > count and number % count == 0 and not at_home):
                continue  # of several nodes, which T08 tells of
            if any(each.code is code and len(members(each.ranks)) < len(each.ranks) for each in courses(job)):
                continue  # the others are there for RPC
            yield LintFinding(
                span=code.span(spawned.call),
                summary=f"spawn starts {count} processes, and the group is made for a world of {number}",
                happens=f"Ranks {count} to {number - 1} are waited for, which nobody starts."
                if number > count
                else f"The ranks from {number} on are refused.",
                fix=f"Hand {count} over as the world size, or write nprocs={number}.",
            )


_MEANINGS = {
    **dict.fromkeys(
        ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID",
         "FLUX_TASK_RANK", "JSM_NAMESPACE_RANK"), "rank"),
    **dict.fromkeys(
        ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID",
         "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "JSM_NAMESPACE_LOCAL_RANK"),
        "local rank"),
    "SLURM_NODEID": "node rank",
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                     "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE"), "world size"),
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "FLUX_JOB_NNODES"), "number of nodes"),
    **dict.fromkeys(("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE",
                     "MV2_COMM_WORLD_LOCAL_SIZE"), "ranks of a node"),
}  # fmt: skip
"""What variables of those who start tasks count: srun(1), mpirun(1), Hydra, PALS, flux, jsrun."""
_WANTED = {
    "RANK": "rank", "LOCAL_RANK": "local rank", "NODE_RANK": "node rank", "GROUP_RANK": "node rank",
    "WORLD_SIZE": "world size", "LOCAL_WORLD_SIZE": "ranks of a node",
}  # fmt: skip
_UNLIKE = {
    frozenset(("rank", "local rank")): "nodes", frozenset(("rank", "node rank")): "each",
    frozenset(("local rank", "node rank")): "both", frozenset(("world size", "number of nodes")): "each",
    frozenset(("world size", "ranks of a node")): "nodes", frozenset(("number of nodes", "ranks of a node")): "both",
}  # fmt: skip
"""Two that are the same number, unless there are several nodes, several ranks on each, or both."""
_TASKS = (
    "#@ file train.py\nimport os\nimport torch.distributed as dist\nos.environ['{}'] = os.environ['{}']\n"
    "dist.init_process_group('nccl')\n#@ every node\nexport MASTER_ADDR=n01\nsrun --nodes=2 --ntasks-per-node=4"
    " python train.py\n"
)


@rule(
    "T38",
    title="A program fills its ranks from variables that count the same",
    source="srun(1), OUTPUT ENVIRONMENT VARIABLES; mpirun(1); torch's env://; Lightning's NODE_RANK",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _TASKS.format("RANK", "SLURM_LOCALID"),
        _TASKS.format("NODE_RANK", "SLURM_PROCID"),
        _TASKS.format("WORLD_SIZE", "SLURM_NNODES"),
    ),
    good=(
        _TASKS.format("RANK", "SLURM_PROCID"),
        _TASKS.format("NODE_RANK", "SLURM_NODEID"),
        Example(_TASKS.format("NODE_RANK", "SLURM_PROCID").replace("per-node=4", "per-node=1")),
    ),
)
def rank_of_another_kind(job: LintJob) -> Iterator[LintFinding]:
    """The rank among all, the rank on the node and the node's own are one number on one node or with one rank a node
    alone."""
    for code, starts in codes_and_starts(job):
        if len(starts) != 1 or starts[0].launcher not in ("srun", "mpirun", "python"):
            continue
        counts = rank_counts.counts(job, starts[0])
        nodes = nodes_of(job, starts[0]) or counts.nodes or 1
        each = counts.each or (world_of(job, starts[0]) or 1) // max(nodes, 1)
        several = {"nodes": nodes > 1, "each": each > 1, "both": nodes > 1 or each > 1}
        for name, node in _filled(code):
            source = _variable_in(code, node)
            if source is None:
                continue
            wanted, given = _WANTED[name], _MEANINGS[source]
            why = _UNLIKE.get(frozenset((wanted, given)))
            if why is None or not several[why]:
                continue
            right = next((other for other, kind in _MEANINGS.items()
                          if kind == wanted and other.partition("_")[0] == source.partition("_")[0]), "")  # fmt: skip
            yield LintFinding(
                span=code.span(node),
                summary=f"{name} is the {wanted}, and is filled from {source}, the {given}",
                happens="Ranks are there twice or nowhere: the group is refused, or waits until its time-out.",
                fix=f"Take {right}." if right else f"Take a variable that is the {wanted}.",
            )


def _filled(code: PythonCode) -> Iterator[tuple[str, ast.expr]]:
    """os.environ[NAME] = ..., and rank=, world_size= of the group."""
    for node in code.nodes:
        if isinstance(node, ast.Assign) and (name := set_variable(code, node)) in _WANTED:
            yield name, node.value
    for call in code.calls:
        if code.torch_name(call.func) == "init_process_group":
            for argument_name, place, name in (("rank", 4, "RANK"), ("world_size", 3, "WORLD_SIZE")):
                told = argument(call, argument_name, place)
                if told is not None:
                    yield name, told


def _variable_in(code: PythonCode, node: ast.expr) -> str | None:
    """The variable of the environment that an expression is, through names, int() and str()."""
    values = PythonValues(code)
    for _ in range(6):
        if isinstance(node, ast.Name):
            behind = values.behind(node)
            if behind is None:
                return None
            node = behind
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "str"):
            if len(node.args) != 1:
                return None
            node = node.args[0]
        else:
            break
    text = ast.unparse(node)
    found = re.fullmatch(r"(?:os\.)?(?:environ\[|environ\.get\(|getenv\()'(\w+)'(?:, [^)]*)?[\])]", text)
    return found[1] if found is not None and found[1] in _MEANINGS else None
