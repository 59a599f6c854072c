"""Rules of what every rank of a program does alike and should not: T12, T14."""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.courses.values import Thing
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, own_nodes
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import Example, LintFinding, rule

_HEAD = (
    "import torch\nfrom torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
)
_TRAIN = (
    "def train(rank):\n    sampler = DistributedSampler(data)\n"
    "    loader = DataLoader(data, batch_size=8, sampler=sampler)\n"
    "    for epoch in range(10):\n        {}for batch in loader:\n            step(batch)\n"
)
_SEEDED = "def train(rank):\n    torch.manual_seed({})\n    model = DDP(Net().to(rank))\n    {}\n"
FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "ray", "composer", "ignite", "fastai",
              "catalyst", "mmengine", "detectron2", "nemo", "megatron", "deepspeed", "trl", "timm")  # fmt: skip
"""They tell the sampler the epoch themselves, or have loops of their own."""
MOST_SAMPLERS = 16
"""Of one text that are looked at: each is looked for in all of it."""
_SEEDED_BY = {
    "torch.manual_seed": "torch",
    "torch.cuda.manual_seed": "torch",
    "torch.cuda.manual_seed_all": "torch",
    "numpy.random.seed": "numpy.random",
}
"""What seeds, and the package whose functions draw from it."""
_DRAWS_OF_NUMPY = frozenset({"rand", "randn", "normal", "uniform", "standard_normal", "random_sample"})
"""A permutation or choice that all ranks share is what some programs divide the data by."""
_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like"})


@rule(
    "T12",
    title="A sampler that shuffles is told the epoch",
    severity="warning",
    source="torch/utils/data/distributed.py: the order is drawn from seed + epoch; tried with torch 2.13",
    bad=(
        _HEAD + _TRAIN.format(""),
        _HEAD + _TRAIN.format("").replace("DistributedSampler(data)", "DistributedSampler(data, shuffle=True)"),
        "#@ file t.py\n"
        + _HEAD
        + "def every(loader):\n    while True:\n        for x in loader:\n            yield x\n"
        "rows = every(DataLoader(data, 8, sampler=DistributedSampler(data)))\nfor i in range(90):\n"
        "    DDP(net)(next(rows)).sum().backward()\n#@ every node\ntorchrun --standalone --nproc-per-node=2 t.py\n",
    ),
    good=(
        _HEAD + _TRAIN.format("sampler.set_epoch(epoch)\n        "),
        _HEAD + _TRAIN.format("").replace("DistributedSampler(data)", "DistributedSampler(data, shuffle=False)"),
        _HEAD + _TRAIN.format("").replace("range(10)", "range(1)"),
        "import lightning\n" + _HEAD + _TRAIN.format(""),
        _HEAD + "def loader_of(data):\n    return DataLoader(data, sampler=DistributedSampler(data))\n",
    ),
)
def sampler_without_set_epoch(job: LintJob) -> Iterator[LintFinding]:
    """DistributedSampler draws its order from the seed and the epoch, and the epoch is 0 until set_epoch says another.
    Every epoch then has the same batches in the same order."""
    every = tuple(codes(job))
    found = [] if any("set_epoch" in code.text for code in every) else list(_by_the_text(every))
    yield from found or _by_the_course(job)


def _by_the_course(job: LintJob) -> Iterator[LintFinding]:
    """The same loader is trained from again and again."""
    for each in courses(job):
        deeds = each.ranks[0].deeds
        made = {id(deed.node): deed for deed in deeds if deed.what == "sampler"}
        epochs = [deed for deed in deeds if deed.what == "called" and deed.value.name == "sampler.set_epoch"]
        if len(each.ranks) < 2 or ("set_epoch" in each.code.text and not epochs):
            continue
        for deed in (deed for deed in deeds if deed.what == "goes through"):
            sampler, around = deed.value.fields.get("sampler"), each.code.parents.get(deed.node)
            if not isinstance(sampler, Thing) or sampler.fields.get("draws") is not True:
                continue
            first = made.get(id(sampler.node))
            again = [loop for loop in deed.loops if first is not None and loop not in first.loops]
            trains = any(other.what == "backward" and around in other.loops for other in deeds) or (
                around is not None and any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walked(around))
            )
            told = [other for other in epochs if other.value.object == sampler.key]
            if not again or not trains or not isinstance(sampler.node, ast.expr) or (epochs and not told):
                continue
            same = [other.node for other in told if isinstance(other.node, ast.Call) and _is_constant(other.node)]
            if told and (len(same) < len(told) or not told[0].loops):
                continue
            where = "its set_epoch is told the same number each time" if told else "nothing tells it the epoch"
            yield LintFinding(
                span=each.code.span(same[0] if same else sampler.node),
                summary=f"the sampler shuffles for each rank, and {where}",
                happens="Each time that the loader is gone through, it gives the same batches in the same order.",
                fix=f"Call sampler.set_epoch(n) in the loop of line {each.code.line_of(again[-1])}, with another n"
                " each time.",
            )
            return


def _is_constant(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


def _by_the_text(every: Sequence[PythonCode]) -> Iterator[LintFinding]:
    for code in every:
        if code.brings(*FRAMEWORKS):
            continue
        made = (call for call in code.calls if code.torch_name(call.func) == "DistributedSampler")
        for call in islice(made, MOST_SAMPLERS):
            if any(keyword.arg is None for keyword in call.keywords):
                continue
            shuffle = argument(call, "shuffle", 3)
            if shuffle is not None and constant(shuffle) is not True:
                continue
            name, inline = _assigned(code, call)
            scope = code.scope_of(call)
            loop = next(
                (node for node in own_nodes(scope) if isinstance(node, ast.For) and _is_epochs(code, node)), None
            )
            if (
                not name
                or loop is None
                or loop.lineno < call.lineno
                or not _is_drawn_from(code, scope, name, loop, inline)
            ):
                continue
            sampler = f"{name}.sampler" if inline else name
            epoch = loop.target.id if isinstance(loop.target, ast.Name) else "epoch"
            yield LintFinding(
                span=code.span(call),
                summary=f"{sampler} shuffles for each rank, and nothing tells it the epoch",
                happens="Every epoch has the same batches in the same order: it trains, and generalises worse.",
                fix=f"Write {sampler}.set_epoch({epoch}) as the first line of the loop in line {code.line_of(loop)}.",
            )


def _assigned(code: PythonCode, call: ast.Call) -> tuple[str, bool]:
    """The name of `name = DistributedSampler(...)`, on a condition or not. True: it is the name of the loader, in whose
    call the sampler is made."""
    parent = code.parents.get(call)
    inline = False
    if isinstance(parent, ast.keyword) and parent.arg == "sampler":
        parent, inline = code.parents.get(parent), True
        if not isinstance(parent, ast.Call) or code.torch_name(parent.func) != "DataLoader":
            return "", inline
        parent = code.parents.get(parent)
    elif isinstance(parent, ast.IfExp):
        parent = code.parents.get(parent)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return "", inline
    return parent.targets[0].id, inline


def _is_epochs(code: PythonCode, loop: ast.For) -> bool:
    """`for epoch in range(...)`, of more than one."""
    over = loop.iter
    if not isinstance(loop.target, ast.Name) or not re.search(r"epoch|^ep?$", loop.target.id, re.IGNORECASE):
        return False
    while (
        isinstance(over, ast.Call)
        and isinstance(over.func, ast.Name)
        and over.func.id in ("tqdm", "trange")
        and over.args
    ):
        over = over.args[0]
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name) or over.func.id != "range":
        return False
    return not (len(over.args) == 1 and constant(over.args[0]) in (0, 1))


def _is_drawn_from(code: PythonCode, scope: ast.AST, name: str, loop: ast.For, inline: bool) -> bool:
    """A DataLoader with this sampler is gone through in the loop, or handed to a function of the text."""
    loaders = {name} if inline else {
        target.id
        for node in own_nodes(scope)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        and code.torch_name(node.value.func) == "DataLoader"
        and isinstance(given := argument(node.value, "sampler", 3), ast.Name) and given.id == name
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    used = [node for body in loop.body for node in walked(body) if isinstance(node, ast.Name) and node.id in loaders]
    trains = [_trains(code, node) for node in used]
    return bool(used) and all(_is_seen(code, node) for node in used) and ("backward(" not in code.text or any(trains))


def _trains(code: PythonCode, loader: ast.Name) -> bool:
    """Whether what goes through it learns from it: a loader for validation keeps its order, and may."""
    for above in code.around(loader):
        if isinstance(above, ast.stmt):
            return isinstance(above, ast.For) and "backward(" in code.words(above)
        called = above.func.id if isinstance(above, ast.Call) and isinstance(above.func, ast.Name) else ""
        if called in code.functions:
            return "backward(" in code.words(code.functions[called])
    return False


def _is_seen(code: PythonCode, loader: ast.Name) -> bool:
    """Whether what is done with it there stands in the text: a function of another file may set the epoch."""
    above = code.parents.get(loader)
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Name):
        return above.func.id in code.functions or above.func.id in ("enumerate", "tqdm", "len", "zip", "iter")
    return isinstance(above, (ast.For, ast.comprehension))


@rule(
    "T14",
    title="What each rank draws is seeded by its rank",
    severity="info",
    source="torch.manual_seed; DistributedDataParallel hands out rank 0's weights, whatever the seeds are",
    bad=(
        _HEAD + _SEEDED.format(0, "x = torch.randn(20, 8)"),
        _HEAD + _SEEDED.format(42, "noise = torch.rand(4)"),
        _HEAD + _SEEDED.format(42, "x = torch.randn(4, device=rank)").replace("manual_seed", "cuda.manual_seed_all"),
        "import numpy as np\n"
        + _HEAD
        + _SEEDED.format(7, "x = np.random.randn(4)").replace("torch.manual_seed", "np.random.seed"),
    ),
    good=(
        _HEAD + _SEEDED.format(42, "x = torch.randn(4)").replace("manual_seed", "cuda.manual_seed_all"),
        _HEAD + _SEEDED.format("0 + rank", "x = torch.randn(20, 8)"),
        _HEAD + _SEEDED.format(0, "step(batch)"),
        _HEAD + _SEEDED.format(0, "torch.manual_seed(rank)\n    x = torch.randn(20, 8)"),
        Example("import torch\ntorch.manual_seed(0)\nx = torch.randn(20, 8)\n"),
    ),
)
def same_seed_on_all_ranks(job: LintJob) -> Iterator[LintFinding]:
    """One seed for all ranks gives all of them the same weights, which is right, and then the same random numbers.
    Where a rank draws its data itself, all ranks work on the same."""
    for code in codes(job):
        for scope in (code.tree, *(node for node in code.nodes if isinstance(node, FUNCTIONS))):
            inside = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
            wraps = [node for node in inside if code.torch_name(node.func) == "DistributedDataParallel"]
            for by, seeds in _seeds(code, inside).items() if wraps else ():
                seed = seeds[0]
                if len(seeds) != 1 or type(constant(argument(seed, "seed", 0))) is not int:
                    continue
                after = max(wraps[0].lineno, seed.lineno)
                drawn = next((node for node in inside if node.lineno > after and _draws(code, node, by)), None)
                if drawn is None:
                    continue
                yield LintFinding(
                    span=code.span(seed),
                    summary=f"every rank has the seed {constant(argument(seed, 'seed', 0))}, and draws in line"
                    f" {code.line_of(drawn)}",
                    happens="All ranks draw the same numbers there: where it is data, each rank does the same work.",
                    fix=f"After the model is wrapped write {by}(SEED + rank); one seed before it is right.",
                )


def _seeds(code: PythonCode, inside: list[ast.Call]) -> dict[str, list[ast.Call]]:
    """The calls that seed, by their function."""
    calls: dict[str, list[ast.Call]] = {}
    for node in inside:
        if (name := code.name(node.func)) in _SEEDED_BY:
            calls.setdefault(name, []).append(node)
    return calls


def _draws(code: PythonCode, node: ast.Call, by: str) -> bool:
    """Whether it draws from what `by` seeds: torch.manual_seed does for every device, the others for theirs."""
    package, _, last = code.name(node.func).rpartition(".")
    if package != _SEEDED_BY[by] or last not in (_DRAWS if package == "torch" else _DRAWS_OF_NUMPY):
        return False
    device = argument(node, "device")
    on_gpu = device is not None and constant(device) != "cpu"
    return argument(node, "generator") is None and (on_gpu or ".cuda." not in by)
