"""Rules of how loaders, their workers and their ranks share the data, followed through the program: U23 to U25."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.courses.values import Thing
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN, of

_DATA = DDP + "from torch.utils.data import DataLoader, IterableDataset\n"
_STREAM = (
    "class Stream(IterableDataset):\n    def __init__(self, names):\n        self.names = names\n"
    "    def __iter__(self):\n        {}for name in self.names:\n            yield from rows_of(name)\n"
)
_WORKER = "torch.utils.data.get_worker_info()\n        "
_TRAINS = "for x in loader:\n    net(x).sum().backward()\n"
_OF_WORKERS = lazy_re(r"worker|split_dataset|Queue|socket|redis")
_SPLITS = lazy_re(r"::|range\(.*rank.*world|%\s*(?:self\.)?\w*world")
_EVENED = lazy_re(
    r"islice|while True|repeat|cycle|\bmin\(|drop|limit_|num_batches|total_size|num_samples|steps|//|\bpad|max_"
    r"|all_reduce|__len__"
)
"""Words of a stream that gives all ranks as many."""


@rule(
    "U23",
    title="Each worker of a loader has its part of a stream, and knows the epoch",
    severity="warning",
    source="torch.utils.data, IterableDataset: each worker has a replica of the dataset; persistent_workers: those of"
    " the first epoch are kept, with the copy of the dataset that they were given",
    bad=(
        _DATA + _STREAM.format("") + "loader = DataLoader(Stream(['a', 'b']), 8, num_workers=4)\n" + _TRAINS + RUN,
        _DATA + _STREAM.format(_WORKER) + "    def set_epoch(self, epoch):\n        self.epoch = epoch\n"
        "data = Stream(['a'])\nloader = DataLoader(data, 8, num_workers=2, persistent_workers=True)\n"
        "for epoch in range(9):\n    data.set_epoch(epoch)\n    for x in loader:\n        net(x).sum().backward()\n"
        + RUN,
    ),
    good=(
        _DATA + _STREAM.format("") + "loader = DataLoader(Stream(['a', 'b']), 8)\n" + _TRAINS + RUN,
        _DATA + _STREAM.format("info = " + _WORKER) + "loader = DataLoader(Stream(['a']), 8, num_workers=4)\n" + _TRAINS
        + RUN,
        _DATA + _STREAM.format("") + "loader = DataLoader(Stream(['a']), 8, num_workers=4, worker_init_fn=part)\n"
        + _TRAINS + RUN,
    ),
)  # fmt: skip
def workers_repeat_a_stream(job: LintJob) -> Iterator[LintFinding]:
    """A worker is a process with a copy of the dataset: it goes through all of it, and does not see what is changed in
    the main process later."""
    for each in courses(job):
        for what, says, happens, fix in (
            (
                "workers of a stream",
                "the stream is gone through by several workers, and does not ask which of them it is",
                "Every worker gives all of it: each sample comes as many times as there are workers.",
                "Split it in __iter__ by torch.utils.data.get_worker_info(), or take num_workers=1.",
            ),
            (
                "epoch for lasting workers",
                "set_epoch changes the dataset of the main process, and persistent workers keep their copies",
                "The workers stay in their first epoch: its order comes again in each.",
                "Leave persistent_workers out, or keep the epoch in shared memory (torch.tensor(0).share_memory_()).",
            ),
        ):
            deed = next((deed for _, deed in of(each.ranks[:1], what)), None)
            if deed is None or not isinstance(deed.value.node, ast.ClassDef):
                continue
            text = each.code.text_of(deed.value.node)
            if (_OF_WORKERS.search(text) and what.startswith("workers")) or re.search(r"share_memory|Value\(", text):
                continue
            yield LintFinding(span=each.code.span(deed.node), summary=says, happens=happens, fix=fix)


@rule(
    "U24",
    title="All ranks have as many batches",
    severity="warning",
    source="torch.nn.parallel.DistributedDataParallel, join: uneven inputs hang without it; CosyVoice#297,"
    " DeepSpeed#2223, vggt#285",
    leads_to=("uneven-inputs",),
    bad=(
        _DATA + _STREAM.format(_WORKER).replace("= names", "= names[rank::4]")
        + "loader = DataLoader(Stream(['a', 'b']), 8)\n" + _TRAINS + RUN,
        _DATA + "class Batches:\n    def __init__(self, sizes, rank, world):\n"
        "        self.places = list(range(rank, len(sizes), world))\n    def __iter__(self):\n        batch = []\n"
        "        for place in self.places:\n            batch.append(place)\n            if is_full(batch):\n"
        "                yield batch\n                batch = []\n"
        "loader = DataLoader(data, batch_sampler=Batches(sizes, rank, dist.get_world_size()))\n" + _TRAINS + RUN,
        DDP + "for name in sorted(os.listdir('d'))[rank::dist.get_world_size()]:\n"
        "    net(read(name)).sum().backward()\n" + RUN,
    ),
    good=(
        _DATA + _STREAM.format(_WORKER).replace("= names", "= names[rank::4]")
        + "loader = DataLoader(Stream(['a', 'b']), 8)\nwith net.join():\n    for x in loader:\n"
        "        net(x).sum().backward()\n" + RUN,
        _DATA + _STREAM.format(_WORKER).replace("= names", "= names[rank::4]")
        + "loader = DataLoader(Stream(['a', 'b']), 8)\nfor i, x in enumerate(loader):\n    if i == 1000:\n"
        "        break\n    net(x).sum().backward()\n" + RUN,
    ),
)  # fmt: skip
def batches_of_a_rank(job: LintJob) -> Iterator[LintFinding]:
    """A stream or sampler that takes every world-th file, or fills batches by length, gives the ranks different numbers
    of batches. Whoever is through leaves the others in backward."""
    for each in courses(job):
        first = each.ranks[0]
        if len(each.ranks) < 2 or not first.wraps or re.search(r"\.join\(\)|Join\(", each.code.text):
            continue
        for deed in (
            deed for deed in first.deeds if deed.what == "uneven rounds" and not _EVENED.search(each.code.text)
        ):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="each rank goes through its own part, and where their number does not divide, parts are not as"
                " long",
                happens="The ranks have different numbers of turns: who has more waits in backward for who is through.",
                fix="Cut all parts to the shortest, or train within `with model.join():`.",
                severity="warning",
            )
            return
        for deed in (deed for deed in first.deeds if deed.what == "goes through"):
            loader = deed.value
            source = next((made for made in (loader.fields.get("data"), loader.fields.get("batches")) if _is_own(made)),
                          None)  # fmt: skip
            loop = next((above for above in each.code.around(deed.node) if isinstance(above, ast.For)), None)
            if source is None or loop is None or not _trains(loop):
                continue
            text = each.code.text_of(source.node)
            if _SPLITS.search(text) and not _EVENED.search(text):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"{source.node.name} gives each rank what its part has, and parts are not as long",
                    happens="The ranks have different numbers of batches: who has more waits in backward for who is"
                    " through.",
                    fix="Give all as many (cut to the smallest by an all_reduce, or repeat), or train within"
                    " `with model.join():`.",
                )
                break


def _is_own(made: object) -> bool:
    if not isinstance(made, Thing) or not isinstance(made.node, ast.ClassDef):
        return False
    return made.fields.get(" stream") is True or not any("Dataset" in ast.unparse(base) for base in made.node.bases)


def _trains(loop: ast.For) -> bool:
    """It goes backward, and nothing leaves it before its end."""
    inside = [node for line in loop.body for node in walked(line)]
    leaves = any(isinstance(node, (ast.Break, ast.Return)) for node in inside)
    return not leaves and any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in inside)


_SAMPLED = (
    DDP + "from torch.utils.data import DataLoader, DistributedSampler\nfrom mine import data\n"
    "sampler = DistributedSampler(data{})\nloader = DataLoader(data, 8, sampler=sampler)\n"
)
_CYCLE = "plan = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=steps)\n"


@rule(
    "U25",
    title="A schedule that steps with each batch is as long as a rank's batches",
    severity="warning",
    source="torch/utils/data/distributed.py: a rank has len(data) / world of the samples; torch/optim/lr_scheduler.py:"
    " total_steps counts calls of step()",
    bad=(
        _SAMPLED.format("") + "steps = 9 * (len(data) // 8)\n" + _CYCLE + RUN,
        _SAMPLED.format("")
        + "plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=9 * len(data) // 8)\n"
        + RUN,
    ),
    good=(
        _SAMPLED.format("") + "steps = 9 * len(loader)\n" + _CYCLE + RUN,
        _SAMPLED.format("") + "steps = 9 * (len(data) // (8 * dist.get_world_size()))\n" + _CYCLE + RUN,
    ),
)
def schedule_of_one_process(job: LintJob) -> Iterator[LintFinding]:
    """Of all the data divided by one rank's batch, each rank does a world-th part: training ends early in the
    schedule."""
    for each in courses(job):
        samplers = [deed for _, deed in of(each.ranks[:1], "sampler")]
        data = {
            ast.unparse(deed.node.args[0]) for deed in samplers if isinstance(deed.node, ast.Call) and deed.node.args
        }
        if len(each.ranks) < 2 or not data:
            continue
        assigned = (node for node in each.code.nodes if isinstance(node, ast.Assign) and len(node.targets) == 1)
        made = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}
        for call in each.code.calls:
            if not _SCHEDULES.search(each.code.name(call.func)):
                continue
            given = [*(keyword.value for keyword in call.keywords if keyword.arg in _LENGTHS), *call.args[1:3]]
            for expression in given:
                words = _whole(expression, made)
                lengths = {ast.unparse(node.args[0]) for node in walked(ast.parse(words, mode="eval"))
                           if isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and node.args}  # fmt: skip
                if lengths & data and "/" in words and not re.search(r"world|rank|gpu|proc|replica|size\(", words):
                    yield LintFinding(
                        span=each.code.span(call),
                        summary=f"the schedule is as long as for one process: {words[:70]}",
                        happens="Each rank makes a world-th part of these steps: training ends early in the schedule.",
                        fix="Take len(loader), which counts a rank's own batches.",
                    )
                    return


_SCHEDULES = lazy_re(r"OneCycleLR|CosineAnnealingLR|LinearLR|PolynomialLR|get_\w+_schedule\w*|get_scheduler")
_LENGTHS = ("total_steps", "T_max", "num_training_steps", "total_iters", "steps_per_epoch")


def _whole(expression: ast.expr, made: dict[str, ast.expr], depth: int = 0) -> str:
    """With the names in it written out."""
    if depth > 3:
        return ast.unparse(expression)
    if isinstance(expression, ast.Name) and expression.id in made:
        return f"({_whole(made[expression.id], made, depth + 1)})"
    if isinstance(expression, ast.BinOp):
        sign = {ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/"}.get(type(expression.op))
        if sign is not None:
            left, right = (_whole(each, made, depth + 1) for each in (expression.left, expression.right))
            return f"{left} {sign} {right}"
    return ast.unparse(expression)
