"""Rules of the GPU, the port and the data that each rank of a program takes: T23 to T28, T40."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look, processes, spawning
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.program_arguments import decided_number
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, codes_and_starts, constant, own_nodes
from gpudoctor.lint.python_devices import sets_visible
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_options import world_of
from gpudoctor.lint.understood import nodes_of

_HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
)
_TRAIN = "#@ file train.py\n" + _HEAD
_STARTED = "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n"
_TWO = (
    "#@ every node\ntorchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=n0:29400"
    " train.py\n"
)


def _rank_names(code: PythonCode, scope: ast.AST) -> frozenset[str]:
    """Names of a scope or the module that are the rank among all."""
    names = set()
    for node in (*own_nodes(scope), *own_nodes(code.tree)):
        if isinstance(node, ast.Assign) and _is_rank(node.value):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    stores: dict[str, int] = {}
    for node in code.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
    return frozenset(name for name in names if stores.get(name) == 1)


def _is_rank(node: ast.expr) -> bool:
    text = ast.unparse(node).replace('"', "'")
    return re.fullmatch(
        r"(?:torch\.distributed|dist|distributed)\.get_rank\(\)|hvd\.rank\(\)|int\(os\.(?:environ\[|environ\.get\(|getenv\()'RANK'"
        r"(?:, (?:'?-?\d+'?))?[\])]\)",
        text,
    ) is not None  # fmt: skip


@rule(
    "T24",
    title="A GPU is chosen by the rank on its node, not among all ranks",
    source="CUDA: invalid device ordinal; torch.distributed's documentation: LOCAL_RANK",
    bad=(
        _TRAIN + "dist.init_process_group('nccl')\nrank = dist.get_rank()\ntorch.cuda.set_device(rank)\n" + _TWO,
        _TRAIN + "rank = int(os.environ['RANK'])\nnet = torch.nn.Linear(4, 4).cuda(rank)\n" + _TWO,
    ),
    good=(
        _TRAIN + "rank = dist.get_rank()\ntorch.cuda.set_device(rank % torch.cuda.device_count())\n" + _TWO,
        _TRAIN + "rank = int(os.environ['RANK'])\nnet = torch.nn.Linear(4, 4).cuda(rank)\n" + _STARTED,
    ),
)
def rank_of_all_as_device(job: LintJob) -> Iterator[LintFinding]:
    """On the second node ranks go on counting while its GPUs begin at 0 again."""
    for code, starts in codes_and_starts(job):
        launch = next((start for start in starts if (nodes_of(job, start) or 1) > 1), None)
        if launch is None or "CUDA_VISIBLE_DEVICES" in code.text:
            continue
        each, nodes = processes.per_node(job, launch) or 1, nodes_of(job, launch) or 2
        if launch.launcher not in (*look.TORCHRUN, "srun", "mpirun", "horovodrun", "accelerate"):
            continue
        for call in code.calls:
            called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if called not in ("set_device", "cuda", "to") or not call.args:
                continue
            node = call.args[0]
            names = _rank_names(code, code.scope_of(call))
            if not ((isinstance(node, ast.Name) and node.id in names) or _is_rank(node)):
                continue
            gpus = processes.gpus(job, launch)
            if gpus is not None and gpus >= each * nodes:
                continue
            yield LintFinding(
                span=code.span(call),
                summary=f"the GPU is the rank among all, {code.words(node)}, and ranks run on {nodes} nodes",
                happens=f"Ranks from {each} on name GPUs that their node does not have: invalid device ordinal.",
                fix="Take the local rank: hvd.local_rank()."
                if "hvd.rank" in code.words(node)
                else 'Take the local rank: int(os.environ["LOCAL_RANK"]).',
            )
            break


@rule(
    "T25",
    title="A rank that shows itself one GPU takes cuda:0",
    source="CUDA Programming Guide: CUDA_VISIBLE_DEVICES numbers the GPUs that are left from 0",
    bad=(
        _HEAD
        + "i = int(os.environ['LOCAL_RANK'])\nos.environ['CUDA_VISIBLE_DEVICES'] = str(i)\ntorch.cuda.set_device(i)\n",
        _HEAD
        + "i = int(os.environ['LOCAL_RANK'])\nos.environ['CUDA_VISIBLE_DEVICES'] = f'{i}'\n"
        + "net = DistributedDataParallel(net.cuda(i), device_ids=[i])\n",
        _HEAD
        + "os.environ['CUDA_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\n"
        + "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n",
    ),
    good=(
        _HEAD
        + "i = int(os.environ['LOCAL_RANK'])\nos.environ['CUDA_VISIBLE_DEVICES'] = str(i)\ntorch.cuda.set_device(0)\n",
        _HEAD + "i = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device(i)\n",
    ),
)
def own_gpu_shown_and_local_rank(job: LintJob) -> Iterator[LintFinding]:
    """Whoever shows a process its own GPU alone has numbered it anew: it is cuda:0 there."""
    for code in codes(job):
        shown = {_rank_itself(code, each.value): each.statement for each in sets_visible(code)}
        for call in code.calls if shown else ():
            called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            named = _rank_itself(code, call.args[0]) if call.args else ""
            if named not in shown or called not in ("set_device", "cuda", "to") or not re.search("[A-Za-z_]", named):
                continue
            statement = shown[named]
            if (
                code.is_conditional(statement)
                or call.lineno < statement.lineno
                or re.search(rf"\b{re.escape(named)}\s*=\s*0", code.text)
            ):
                continue
            yield LintFinding(
                span=code.span(call),
                summary=f"the process shows itself GPU {named} alone (line {code.line_of(statement)}), and"
                f" takes number {named} of what it sees",
                happens="Every rank but the first fails: CUDA error: invalid device ordinal.",
                fix="Take cuda:0 there, or do not set CUDA_VISIBLE_DEVICES.",
            )
            break


def _rank_itself(code: PythonCode, node: ast.expr) -> str:
    """What stands inside of str(), int() and f"cuda:{...}", and what a name was set to once."""
    for _ in range(6):
        if isinstance(node, ast.Call) and last_name(node.func) in ("str", "int", "device") and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node, ast.JoinedStr):
            inside = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
            if len(inside) != 1 or ast.unparse(node) not in (
                f"f'{{{ast.unparse(inside[0])}}}'",
                f"f'cuda:{{{ast.unparse(inside[0])}}}'",
            ):
                break
            node = inside[0]
        elif isinstance(node, ast.Name):
            told = [
                each.value
                for each in code.nodes
                if isinstance(each, ast.Assign)
                and isinstance(each.targets[0], ast.Name)
                and each.targets[0].id == node.id
            ]
            if len(told) != 1:
                break
            node = told[0]
        else:
            break
    return ast.unparse(node)


_DRAWS = lazy_re(r"(?:free|find|open|unused|random|get|pick)_?port|randint|randrange", re.IGNORECASE)


def _ports(code: PythonCode) -> Iterator[tuple[ast.Assign | ast.Call, ast.expr]]:
    """Where a port is told, and what it is: MASTER_PORT, or the address of the group, also by a name."""
    for node in code.nodes:
        if isinstance(node, ast.Assign) and spawning.set_variable(code, node) == "MASTER_PORT":
            yield node, node.value
        elif isinstance(node, ast.Call) and code.torch_name(node.func) == "init_process_group":
            method = argument(node, "init_method", 1)
            names = {each.id for each in walked(method) if isinstance(each, ast.Name)} if method is not None else set()
            if method is not None:
                yield node, method
            for other in code.nodes if names else ():
                if (
                    isinstance(other, ast.Assign)
                    and isinstance(other.targets[0], ast.Name)
                    and other.targets[0].id in names
                    and code.scope_of(other) is code.scope_of(node)
                    and not code.is_conditional(other)
                ):
                    yield node, other.value


@rule(
    "T27",
    title="All ranks are told one port",
    source="torch/distributed/rendezvous.py: rank 0 listens at MASTER_PORT, the others connect to theirs",
    leads_to=("master-unreachable",),
    bad=(
        "import os\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\ndef main(rank, world):\n"
        "    os.environ['MASTER_ADDR'] = 'localhost'\n    os.environ['MASTER_PORT'] = str(find_free_port())\n"
        "    dist.init_process_group('nccl', rank=rank, world_size=world)\n"
        "if __name__ == '__main__':\n    mp.spawn(main, (4,), 4)\n",
        _TRAIN
        + "import random\nos.environ['MASTER_PORT'] = str(random.randint(20000, 30000))\n"
        + "dist.init_process_group('nccl')\n"
        + _STARTED,
        _TRAIN
        + "port = find_free_port()\ndist.init_process_group('nccl', init_method=f'tcp://localhost:{port}',"
        + " rank=int(os.environ['RANK']), world_size=4)\n"
        + _STARTED,
    ),
    good=(
        "import os\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\ndef main(rank, world):\n"
        "    dist.init_process_group('nccl', rank=rank, world_size=world)\nif __name__ == '__main__':\n"
        "    os.environ['MASTER_ADDR'] = 'localhost'\n    os.environ['MASTER_PORT'] = str(find_free_port())\n"
        "    mp.spawn(main, (4,), 4)\n",
        "import torch.distributed as dist\nimport torch.multiprocessing as mp\ndef main(rank, port):\n"
        "    dist.init_process_group('nccl', init_method=f'tcp://localhost:{port}', rank=rank, world_size=4)\n"
        "if __name__ == '__main__':\n    port = find_free_port()\n    mp.spawn(main, (port,), 4)\n",
        _TRAIN
        + "os.environ.setdefault('MASTER_PORT', str(find_free_port()))\ndist.init_process_group('nccl')\n"
        + _STARTED,
    ),
)
def port_drawn_by_each_rank(job: LintJob) -> Iterator[LintFinding]:
    """A port that each process draws for itself is another one in each of them."""
    for code, starts in codes_and_starts(job):
        spawned = {call.function for call in spawning.spawn_calls(code) if call.function is not None}
        spawned |= {
            code.functions[node.id]
            for function in tuple(spawned)
            for node in walked(function)
            if isinstance(node, ast.Name) and node.id in code.functions
        }
        several = any((world_of(job, launch) or 1) > 1 for launch in starts)
        for node, value in _ports(code):
            inside = any(each in spawned for each in _functions_around(code, node))
            drawn = any(
                isinstance(inner, ast.Call) and _DRAWS.search(ast.unparse(inner.func)) for inner in walked(value)
            )
            if not drawn or not (inside or (several and not spawned)) or code.is_conditional(node):
                continue
            if re.search(r"random\.seed\(|\bseed_everything", code.text):
                continue
            yield LintFinding(
                span=code.span(node),
                summary="each rank draws a port of its own here",
                happens="Rank 0 listens at its port, and the others knock at theirs until the time-out.",
                fix="Draw it once, before the ranks are started, and hand it over; leave it to torchrun where that"
                " starts them.",
            )


def _functions_around(code: PythonCode, node: ast.AST) -> Iterator[ast.AST]:
    above = code.parents.get(node)
    while above is not None:
        if isinstance(above, FUNCTIONS):
            yield above
        above = code.parents.get(above)


_LOADER = "from torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=8, {})\n"


@rule(
    "T28",
    title="DataLoader is told a sampler or shuffle, not both",
    source="torch/utils/data/dataloader.py: sampler option is mutually exclusive with shuffle; batch_sampler with both",
    bad=(_LOADER.format("sampler=sampler, shuffle=True"), _LOADER.format("batch_sampler=sampler")),
    good=(_LOADER.format("sampler=sampler, shuffle=False"), _LOADER.format("sampler=s, shuffle=s is None")),
)
def loader_told_twice(job: LintJob) -> Iterator[LintFinding]:
    """A sampler decides the order, a batch sampler the batches too; DataLoader refuses what would say it again."""
    for code in codes(job):
        for call in code.calls:
            if code.torch_name(call.func) != "DataLoader" or any(keyword.arg is None for keyword in call.keywords):
                continue
            sampler, batches = argument(call, "sampler", 3), argument(call, "batch_sampler", 4)
            shuffle = argument(call, "shuffle", 2)
            both = _is_there(code, sampler) and constant(shuffle) is True
            again = [
                name
                for name, place in (("batch_size", 1), ("shuffle", 2), ("sampler", 3), ("drop_last", 8))
                if (node := argument(call, name, place)) is not None and constant(node) not in (None, False, 1)
            ]
            if both or (_is_there(code, batches) and again):
                what = "sampler and shuffle=True" if both else f"batch_sampler and {again[0]}"
                yield LintFinding(
                    span=code.span(call),
                    summary=f"DataLoader is told {what}; they exclude each other",
                    happens=f"ValueError: {what.partition(' ')[0]} option is mutually exclusive with"
                    f" {'shuffle' if both else 'batch_size, shuffle, sampler, and drop_last'}.",
                    fix="Leave shuffle out: DistributedSampler shuffles by itself."
                    if both
                    else f"Leave {again[0]} out.",
                )


def _is_there(code: PythonCode, node: ast.expr | None) -> bool:
    """The argument is certainly not None."""
    if node is None or isinstance(node, (ast.IfExp, ast.Constant, ast.Attribute, ast.Subscript)):
        return False
    if isinstance(node, ast.Name):
        scope = code.scope_of(node)
        if isinstance(scope, FUNCTIONS) and any(
            arg.arg == node.id for arg in (*scope.args.args, *scope.args.kwonlyargs, *scope.args.posonlyargs)
        ):
            return False
        values = [
            each.value
            for each in code.nodes
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]
        return not any(
            isinstance(value, ast.IfExp) or (isinstance(value, ast.Constant) and value.value is None)
            for value in values
        )
    return isinstance(node, ast.Call)


@rule(
    "T40",
    title="The world size of a program is that of its start",
    source="torch/distributed/distributed_c10d.py: init_process_group waits for world_size processes; env:// beside it",
    bad=(
        _TRAIN
        + "rank = int(os.environ['RANK'])\ndist.init_process_group('nccl', world_size=8, rank=rank)\n"
        + _STARTED,
        _TRAIN + "N = 2\ndist.init_process_group('nccl', world_size=N, rank=int(os.environ['RANK']))\n" + _STARTED,
    ),
    good=(
        _TRAIN
        + "rank = int(os.environ['RANK'])\ndist.init_process_group('nccl', world_size=4, rank=rank)\n"
        + _STARTED,
        _TRAIN + "dist.init_process_group('nccl')\n" + _STARTED,
    ),
)
def world_size_of_the_program(job: LintJob) -> Iterator[LintFinding]:
    """A number in the program that is larger than the ranks that start is waited for; of a smaller one the last ranks
    are refused."""
    for code, starts in codes_and_starts(job):
        if len(starts) != 1:
            continue
        world = world_of(job, starts[0])
        if world is None or world < 2 or starts[0].launcher not in (*look.TORCHRUN, "srun", "mpirun"):
            continue
        for call in code.calls:
            if code.torch_name(call.func) != "init_process_group" or code.is_conditional(call):
                continue
            size = decided_number(code, argument(call, "world_size", 3), starts[0])
            size = _of_one_node(job, code, argument(call, "world_size", 3)) if size is None else size
            if size is not None and size > 0 and size != world:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"world_size={size} in the program, and {world} ranks are started",
                    happens="init_process_group waits for ranks that nobody starts."
                    if size > world
                    else f"Ranks from {size} on are refused, or meet in a world of their own.",
                    fix="Leave world_size and rank out: env:// takes them from the launcher.",
                )


def _of_one_node(job: LintJob, code: PythonCode, node: ast.expr | None) -> int | None:
    """torch.cuda.device_count(), through names: the GPUs of a node, where they are known."""
    node = PythonValues(code).behind(node) if isinstance(node, ast.Name) else node
    counts = isinstance(node, ast.Call) and code.name(node.func) == "torch.cuda.device_count"
    return job.facts.gpus_per_node if counts else None
