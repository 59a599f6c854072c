"""Rules of the files and folders that the ranks of a program write and read, followed through its text: T58, T59."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation
from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.follow import RankCourse
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import OpenValue, Thing, device_number, is_own, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules import rank_programs
from gpudoctor.lint.rules.rank_courses import DDP, RUN, TWO, of

_OF_DATA = lazy_re(r"load|data|batch|sample")
OWN_DISKS = lazy_re(r"/(?:tmp|local|scratch/local|dev/shm|var/tmp|mnt/local)\b|[Tt]mp_?[Dd]ir|^\$")


@rule(
    "T58",
    title="A checkpoint is written by one rank, into a folder that is there",
    severity="warning",
    source="apex#886, nanochat#336; torch.save writes where it is told, and waits for nobody",
    bad=(
        DDP + "os.makedirs('out', exist_ok=True)\nif int(os.environ['LOCAL_RANK']) == 0:\n"
        "    torch.save(net.module.state_dict(), 'out/a.pt')\n" + TWO,
        DDP + "if rank == 0:\n    os.makedirs('out')\ntorch.save(state(), f'out/{rank}.pt')\n" + RUN,
    ),
    good=(
        DDP + "if rank == 0:\n    os.makedirs('out', exist_ok=True)\n"
        "    torch.save(net.module.state_dict(), 'out/a.pt')\n" + TWO,
        DDP + "if rank == 0:\n    os.makedirs('out')\ndist.barrier()\ntorch.save(state(), f'out/{rank}.pt')\n" + RUN,
        "#@ file t.py\nimport torch\nfrom multiprocessing import Process\ndef go(i, part):\n"
        "    torch.save(fit(part), f'tree{i}.pt')\nfor i, part in enumerate(parts()):\n"
        "    p = Process(target=go, args=(i, part))\n    p.start()\n#@ every node\npython t.py\n",
        DDP + "for x, names in log.every(loader):\n    for i, name in enumerate(names):\n"
        "        at = f'out/{name}.pt'\n        torch.save(net(x[i]), at)\n" + RUN,
        DDP + "from torch.utils.data import DataLoader, DistributedSampler\n"
        "for x, names in DataLoader(rows, sampler=DistributedSampler(rows)):\n    for i, name in enumerate(names):\n"
        "        torch.save(net(x[i]), os.path.join('out', name + '.pt'))\n" + RUN,
        DDP + "class Run:\n    def __init__(self):\n        joined = dist.is_initialized() or settings.many\n"
        "        self.rank = dist.get_rank() if joined else 0\n        self.is_main = self.rank == 0\n"
        "    def keep(self):\n        if not self.is_main:\n            return\n"
        "        torch.save(net.module.state_dict(), 'a.pt')\nRun().keep()\n" + RUN,
        DDP + "def go(rank, epochs=1):\n    if rank == 0:\n        torch.save(net.module.state_dict(), 'a.pt')\n"
        "go(**dict(rank=rank))\nmore = {'rank': rank}\ngo(**more)\ngo(*[rank])\n" + RUN,
    ),
)  # fmt: skip
def several_write_one_file(job: LintJob) -> Iterator[LintFinding]:
    """Several processes that write one file write over each other; a folder that one of them makes is there for the
    others only after a barrier."""
    told = {finding.span.line for finding in rank_programs.file_of_all_ranks.judge(job)}
    for each in courses(job):
        yield from (finding for finding in _written_twice(job, each) if finding.span.line not in told)
        yield from _folder_too_late(each)


def _written_twice(job: LintJob, each: Courses) -> Iterator[LintFinding]:
    places: dict[tuple[int, int, int], list[tuple[RankCourse, Deed]]] = {}
    for follower, deed in of(each.ranks, "save"):
        is_other = is_own(deed.value) or (not isinstance(deed.value, str) and _is_of_an_item(each.code, deed.node))
        if isinstance(deed.value, (str, Thing, OpenValue)) and not is_other:
            places.setdefault((id(deed.node), key_of(deed.value), deed.condition), []).append((follower, deed))
    for writers in places.values():
        seats = {follower.seat.rank: follower.seat for follower, _ in writers}
        deed = writers[0][1]
        text = f"{deed.value if isinstance(deed.value, str) else ''} {each.code.words(deed.node)}"
        if len(seats) < 2 or OWN_DISKS.search(text) or any(rank.seat.is_assumed for rank in each.ranks):
            continue
        if each.spawn is None and not any(follower.rank is not None for follower, _ in writers):
            continue
        by_nodes = all(seat.local == 0 for seat in seats.values())
        is_shared = "SLURM" in job.text or "SBATCH" in job.text or "srun" in job.text
        yield LintFinding(
            span=each.code.span(deed.node),
            summary="local rank 0 of each node writes this file, so several nodes write it at once"
            if by_nodes
            else "every rank writes this file, all at once",
            happens="They write over each other where the disk is shared, and the file may not be readable."
            if by_nodes
            else "They write over each other, and the file may not be readable.",
            fix="Write it on rank 0 alone: if dist.get_rank() == 0.",
            severity="info" if by_nodes and not is_shared else None,
        )


def _is_of_an_item(code: PythonCode, save: ast.AST) -> bool:
    """Whether its path is made of what a loop goes through that another function makes of a loader: each rank's batches
    are its own, and nobody knows what comes out."""
    names = _names(save)
    for loop in code.around(save):
        if isinstance(loop, FUNCTIONS):
            return False
        if not isinstance(loop, (ast.For, ast.AsyncFor)):
            continue
        made = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
        for assigned in reversed(made):
            if any(names & _names(each) for each in assigned.targets):
                names |= _names(assigned.value)
        if names & _names(loop.target):
            names |= _names(loop.iter)
            called = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Call)]
            if any(
                last_name(call.func) not in ("enumerate", "zip", "tqdm", "range") and _OF_DATA.search(ast.unparse(each))
                for call in called
                for each in call.args
            ):
                return True
    return False


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _folder_too_late(each: Courses) -> Iterator[LintFinding]:
    made = [(follower, deed) for follower, deed in of(each.ranks, "folder") if isinstance(deed.value, str)]
    for follower, deed in made:
        if any(other is not follower and later.value == deed.value for other, later in made):
            continue
        for other, save in of(each.ranks, "save"):
            folder = save.value.fields.get("folder") if isinstance(save.value, Thing) else save.value
            inside = isinstance(folder, str) and (
                folder == deed.value or folder.startswith(deed.value.rstrip("/") + "/")
            )
            if (
                other is not follower
                and inside
                and save.barriers <= deed.barriers
                and follower.seat.node == other.seat.node
            ):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"rank {follower.seat.rank} alone makes this folder, and rank {other.seat.rank} saves into"
                    f" it, line {each.code.line_of(save.node)}, without a barrier between",
                    happens="A rank that comes first ends: the parent directory does not exist.",
                    fix="Make it on every rank (exist_ok=True), or call dist.barrier() behind it on all.",
                )
                return


@rule(
    "T59",
    title="What rank 0 saved from its GPU is loaded onto the GPU of each rank",
    severity="warning",
    source="torch.load's documentation (map_location), pytorch#23138: every process takes memory of GPU 0",
    bad=(
        DDP + "if os.path.exists('a.pt'):\n    net.load_state_dict(torch.load('a.pt'))\nif rank == 0:\n"
        "    torch.save(net.state_dict(), 'a.pt')\n" + RUN,
        DDP + "P = 'last.pt'\ndef load():\n    return torch.load(P)\nstate = load()\nif rank == 0:\n"
        "    torch.save(net.state_dict(), P)\n"
        + RUN,
    ),
    good=(
        DDP + "net.load_state_dict(torch.load('a.pt', map_location='cpu'))\nif rank == 0:\n"
        "    torch.save(net.state_dict(), 'a.pt')\n"
        + RUN,
        DDP + "if rank == 0:\n    torch.save(net.state_dict(), 'a.pt')\n" + RUN,
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun -n 8 --gpus-per-task=1 python t.py\n"
        "#@ file t.py\nimport os\nimport torch\nimport torch.distributed as dist\nos.environ['MASTER_ADDR'] = head()\n"
        "rank = int(os.environ['SLURM_PROCID'])\ndist.init_process_group('nccl', rank=rank, world_size=8)\n"
        "net.load_state_dict(torch.load('a.pt', map_location=torch.device('cuda:0')))\n",
    ),
)  # fmt: skip
def loaded_onto_the_first_gpu(job: LintJob) -> Iterator[LintFinding]:
    """torch.load puts a tensor where it was saved from: the file of rank 0 onto GPU 0, in every process."""
    for each in courses(job):
        alone = each.launch is not None and allocation.sees_own_gpus_only(job, each.launch) is not None
        named = _first_gpu_for_all(each) if not alone else None  # GPU 0 is another one in each task
        if named is not None:
            yield LintFinding(
                span=each.code.span(named.node),
                summary="every rank of the node loads onto one GPU, which map_location names",
                happens="Each process takes memory of that GPU, which may run out.",
                fix='Write map_location="cpu", or the device of the rank.',
            )
        loads = [
            (follower, deed)
            for follower, deed in of(each.ranks, "load")
            if deed.more is None and deed.value is not None
        ]
        saved = {key_of(deed.value) for _, deed in of(each.ranks, "save") if _is_weights(deed)}
        ranks = {follower.seat.rank for follower, deed in loads if key_of(deed.value) in saved}
        if len(ranks) > 1 and each.ranks[0].backend in ("nccl", ""):
            deed = next(deed for _, deed in loads if key_of(deed.value) in saved)
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="every rank loads, without map_location, what rank 0 has saved from GPU 0",
                happens="Each process takes memory of GPU 0, which may run out, and loading is slow.",
                fix='Write torch.load(..., map_location="cpu"), or the device of the rank.',
            )


def _first_gpu_for_all(each: Courses) -> Deed | None:
    """A load onto the same GPU on two ranks of one node."""
    places: dict[tuple[int, int, int], int] = {}
    for rank, deed in of(each.ranks, "load"):
        gpu = device_number(deed.more)
        is_joined = rank.world is not None and rank.world > 1
        if isinstance(gpu, int) and is_joined and each.ranks[0].backend in ("nccl", ""):
            other = places.setdefault((id(deed.node), rank.seat.node, gpu), rank.seat.rank)
            if other != rank.seat.rank:
                return deed
    return None


def _is_weights(save: Deed) -> bool:
    """Whether what is saved may be of a GPU: weights, or what a name stands for; not a dict of numbers."""
    first = save.node.args[0] if isinstance(save.node, ast.Call) and save.node.args else None
    return not isinstance(first, ast.Dict) or "state_dict" in ast.unparse(first)
