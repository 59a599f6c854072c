"""Rules of what a rank's values are worth for the others, followed through the program: U18 to U22, U26."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import is_own
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN, of

_LOADER = (
    DDP + "from torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n"
    "from mine import data_of\nval = data_of()\nloader = DataLoader(val, 8, sampler=DistributedSampler(val))\n"
)
_HITS = "hits = 0\nfor x, y in loader:\n    hits += (net(x) == y).sum().item()\n"
_ASKS = lazy_re(r"isinstance|distributed|ddp|world|parallel|hasattr|multi|gpus")
"""Words of conditions that ask whether the model is wrapped."""
_REDUCES = lazy_re(r"reduce|gather|\.compute\(|broadcast|sync_dist")


@rule(
    "U18",
    title="What one rank has counted is not taken for all of it",
    severity="warning",
    source="torch/utils/data/distributed.py: each rank's sampler gives len(data) / world of the indices; RecBole#1872",
    bad=(
        _LOADER + _HITS + "print(hits / len(val))\n" + RUN,
        _LOADER + _HITS + "best = 0\nif rank == 0 and hits > best:\n    torch.save(net.module.state_dict(), 'b.pt')\n"
        + RUN,
    ),
    good=(
        _LOADER + _HITS + "seen = torch.tensor(hits).cuda()\ndist.all_reduce(seen)\nprint(seen.item() / len(val))\n"
        + RUN,
        _LOADER + _HITS + "print(hits / len(loader))\n" + RUN,
    ),
)  # fmt: skip
def part_taken_for_the_whole(job: LintJob) -> Iterator[LintFinding]:
    """A loader with a DistributedSampler shows a rank its part alone. Divided by the length of all, or compared with
    the best so far, its sum is a number of that part."""
    for each in courses(job):
        if len(each.ranks) < 2 or _REDUCES.search(each.code.text):
            continue
        for what, says, happens in (
            (
                "part of the whole",
                "what this rank has summed over its part is divided by the length of all the data",
                "The number is the true one divided by how many ranks there are.",
            ),
            (
                "saved by its own",
                "what is saved is chosen by what this rank has computed on its own part of the data",
                "The best model is the best for one rank's part alone.",
            ),
        ):
            deed = next((deed for _, deed in of(each.ranks[:1], what)), None)
            if deed is not None:
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=says + ", and nothing reduces it",
                    happens=happens,
                    fix="Sum it and the count over all ranks before: dist.all_reduce(torch.tensor([a, b]).cuda()).",
                )
                break


@rule(
    "U19",
    title="All processes deal data and metrics out in one order",
    source="Python's documentation, PYTHONHASHSEED: hashes of texts are seeded anew in each process, and sets of texts"
    " are gone through by them; random, numpy.random and torch.randperm begin otherwise in each",
    bad=(
        DDP + "for name in {'loss', 'hits'}:\n    dist.all_reduce(sums[name])\n" + RUN,
        DDP + "mine = [user for user in users if hash(user) % dist.get_world_size() == rank]\n" + RUN,
        DDP + "import random\nfrom mine import files_of\nfiles = files_of()\nrandom.shuffle(files)\n"
        "mine = files[rank::dist.get_world_size()]\n" + RUN,
        DDP + "import time\nout = os.path.join('runs', time.strftime('%H%M%S'))\nos.makedirs(out, exist_ok=True)\n"
        + RUN,
    ),
    good=(
        DDP + "for name in sorted({'loss', 'hits'}):\n    dist.all_reduce(sums[name])\n" + RUN,
        DDP + "from zlib import crc32\nmine = [user for user in users if crc32(user) % 4 == rank]\n" + RUN,
        DDP + "import random\nfrom mine import files_of\nrandom.seed(7)\nfiles = files_of()\nrandom.shuffle(files)\n"
        "mine = files[rank::dist.get_world_size()]\n" + RUN,
        DDP + "import random\nfrom mine import files_of\nfiles = files_of()[rank::dist.get_world_size()]\n"
        "random.shuffle(files)\n" + RUN,
    ),
)  # fmt: skip
def dealt_in_another_order(job: LintJob) -> Iterator[LintFinding]:
    """What each process orders for itself is another order in each."""
    for each in courses(job):
        for what, says, happens, fix in (
            (
                "any order",
                "collectives are called for each of a set of texts, whose order is another one in each process",
                "One rank reduces one name while another reduces the next: the numbers are mixed up.",
                "Go through sorted(...), or through a list.",
            ),
            (
                "dealt in its own order",
                "each rank takes its part of an order that it has drawn by itself, without a seed",
                "The ranks share some of the data, and nobody has the rest.",
                "Seed it alike on all ranks (random.Random(7).shuffle(...)), or deal out first and shuffle then.",
            ),
        ):
            deed = next((deed for _, deed in of(each.ranks, what)), None) if len(each.ranks) > 1 else None
            if deed is not None:
                yield LintFinding(span=each.code.span(deed.node), summary=says, happens=happens, fix=fix)
        yield from _by_the_clock(each)
        if len(each.ranks) < 2 or "PYTHONHASHSEED" in job.text:
            continue
        for node in (node for node in each.code.nodes if isinstance(node, ast.BinOp)):
            is_dealt = (
                isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Call)
                and isinstance(node.left.func, ast.Name) and node.left.func.id == "hash"
                and "hash" not in each.code.own and isinstance(above := each.code.parents.get(node), ast.Compare)
                and "rank" in ast.unparse(above)
            )  # fmt: skip
            if is_dealt:
                yield LintFinding(
                    span=each.code.span(node),
                    summary="data are dealt out to the ranks by hash(), which gives another number in each process",
                    happens="Some of the data come to several ranks, and some to none.",
                    fix="Take zlib.crc32(text.encode()), which is the same everywhere.",
                )
                break


def _by_the_clock(each: Courses) -> Iterator[LintFinding]:
    """A folder that two ranks of one node make, each by a name of its own."""
    made = [(rank, deed) for rank, deed in of(each.ranks, "folder") if is_own(deed.value)]
    nodes = {id(deed.node) for rank, deed in made if rank is each.ranks[0]}
    again = next((deed for rank, deed in made if rank is not each.ranks[0] and id(deed.node) in nodes), None)
    if again is not None and "broadcast" not in each.code.text:
        yield LintFinding(
            span=each.code.span(again.node),
            summary="each rank makes a folder that it names by its own clock or draw",
            happens="Ranks that come a moment later have another name: one run lies in several folders.",
            fix="Name it on rank 0, and hand the name to all (dist.broadcast_object_list), or give it as an argument.",
            severity="warning",
        )


@rule(
    "U20",
    title="A collective gets a tensor of the same shape from every rank",
    source="torch.distributed, all_gather and all_reduce: tensors are of the same size on all ranks; NCCL sends what"
    " each call's own count says",
    bad=(
        DDP + "from mine import score\nfor x in data():\n    boxes = score(x)\n    kept = boxes[boxes > 0.3]\n"
        "    parts = [torch.empty_like(kept) for _ in range(4)]\n    dist.all_gather(parts, kept)\n" + RUN,
        DDP + "from mine import score\nfor x in data():\n    found = score(x).nonzero().cuda()\n"
        "    parts = [torch.empty_like(found) for _ in range(4)]\n    dist.all_gather(parts, found)\n" + RUN,
        DDP + "from mine import rows\nfound = torch.stack([net(x) for x in rows[rank::dist.get_world_size()]])\n"
        "parts = [torch.empty_like(found) for _ in range(4)]\ndist.all_gather(parts, found)\n" + RUN,
    ),
    good=(
        DDP + "from mine import score\nfor x in data():\n    boxes = score(x)\n    kept = boxes[boxes > 0.3]\n"
        "    parts = [None] * 4\n    dist.all_gather_object(parts, kept.cpu())\n" + RUN,
        DDP + "from mine import score, pad\nfor x in data():\n    boxes = score(x)\n"
        "    kept = pad(boxes[boxes > 0.3], 9)\n"
        "    parts = [torch.empty_like(kept) for _ in range(4)]\n    dist.all_gather(parts, kept)\n" + RUN,
    ),
)  # fmt: skip
def shape_of_the_data(job: LintJob) -> Iterator[LintFinding]:
    """How many rows a mask or nonzero leaves is decided by the data, which are others on each rank."""
    for each in courses(job):
        deed = next((deed for _, deed in of(each.ranks, "ragged")), None) if len(each.ranks) > 1 else None
        if deed is not None:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"{deed.value} gets as many rows as a mask has left, which differ from rank to rank",
                happens="It hangs, or mixes the ranks' numbers up: every rank must bring the same shape.",
                fix="Take dist.all_gather_object, or gather the lengths first and pad to the longest.",
            )
            continue
        deed = next((deed for _, deed in of(each.ranks, "dealt")), None) if len(each.ranks) > 1 else None
        if deed is not None:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"{deed.value} gets what a rank has made of every {each.ranks[0].world}th item: where their"
                " number does not divide, the length differs",
                happens="It hangs, or mixes the ranks' numbers up: every rank must bring the same shape.",
                fix="Take dist.all_gather_object, or pad to the longest part and cut afterwards.",
                severity="warning",
            )


@rule(
    "U21",
    title="What one rank alone has made is used on that rank",
    source="Python: AttributeError: 'NoneType' object has no attribute",
    leads_to=("program-error",),
    bad=(
        DDP + "writer = make() if rank == 0 else None\nwriter.add_scalar('a', 1, 0)\n" + RUN,
        DDP + "def log(writer, x):\n    writer.add_scalar('a', x, 0)\nwriter = None\nif rank == 0:\n"
        "    writer = make()\nfor x in data():\n    log(writer, x)\n" + RUN,
    ),
    good=(
        DDP + "writer = make() if rank == 0 else None\nif rank == 0:\n    writer.add_scalar('a', 1, 0)\n" + RUN,
        DDP
        + "writer = make() if rank == 0 else None\nif writer is not None:\n    writer.add_scalar('a', 1, 0)\n"
        + RUN,
    ),
)
def nothing_on_other_ranks(job: LintJob) -> Iterator[LintFinding]:
    """Made below a condition on the rank, it stays None on the other ranks, which use it all the same."""
    for each in courses(job):
        bare = {id(deed.node) for _, deed in of(each.ranks[:1], "nothing there")}
        for rank, deed in of(each.ranks[1:], "nothing there"):
            node = deed.node
            if not isinstance(node, ast.Attribute) or id(node) in bare or hasattr(None, node.attr):
                continue
            name = ast.unparse(node.value)
            if not deed.is_sure and _is_asked(each, node, name):
                continue
            yield LintFinding(
                span=each.code.span(node),
                summary=f"{name} is None on rank {rank.seat.rank}, and .{node.attr} is asked of it on every rank",
                happens=f"AttributeError: 'NoneType' object has no attribute '{node.attr}'.",
                fix="Use it below the condition below which it is made.",
            )
            break


def _is_asked(each: Courses, node: ast.AST, name: str) -> bool:
    """A condition above it speaks of it, or of who may come here."""
    for above in each.code.around(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp, ast.Try)):
            test = ast.unparse(above.test) if not isinstance(above, ast.Try) else name
            if name in test or re.search(r"rank|main|master|writer|log", test):
                return True
    return False


@rule(
    "U22",
    title="A loss of gathered tensors has a part with a gradient",
    source="torch.distributed.all_gather: what it gives has no gradient; pytorch-metric-learning#10",
    leads_to=("program-error",),
    bad=(
        DDP + "def every(x):\n    parts = [torch.empty_like(x) for _ in range(4)]\n    dist.all_gather(parts, x)\n"
        "    return torch.cat(parts)\nfor x in data():\n    z = every(net(x))\n    (z @ z.t()).mean().backward()\n"
        + RUN,
        DDP + "for x in data():\n    y = net(x)\n    parts = [torch.empty_like(y) for _ in range(4)]\n"
        "    dist.all_gather(parts, y)\n    loss = torch.stack(parts).mean()\n    loss.backward()\n" + RUN,
    ),
    good=(
        DDP + "def every(x):\n    parts = [torch.empty_like(x) for _ in range(4)]\n    dist.all_gather(parts, x)\n"
        "    parts[rank] = x\n    return torch.cat(parts)\nfor x in data():\n    z = every(net(x))\n"
        "    (z @ z.t()).mean().backward()\n" + RUN,
        DDP + "for x in data():\n    y = net(x)\n    parts = [torch.empty_like(y) for _ in range(4)]\n"
        "    dist.all_gather(parts, y)\n    loss = (y @ torch.cat(parts).t()).mean()\n    loss.backward()\n" + RUN,
    ),
)  # fmt: skip
def gathered_without_a_gradient(job: LintJob) -> Iterator[LintFinding]:
    """The rank's own part has to be put back in its place, or torch.distributed.nn.functional.all_gather be taken."""
    for each in courses(job):
        deed = next((deed for _, deed in of(each.ranks[:1], "backward without a graph")), None)
        if deed is not None:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="the loss is of gathered tensors alone, and all_gather gives them without a gradient",
                happens="RuntimeError: element 0 of tensors does not require grad; or nothing of it reaches the model.",
                fix="Put the rank's own tensor back: parts[dist.get_rank()] = x; or take"
                " torch.distributed.nn.functional.all_gather.",
            )


@rule(
    "U26",
    title="What the wrapped model has is asked of its module",
    source="torch/nn/parallel/distributed.py: DistributedDataParallel hands no attributes on",
    leads_to=("program-error",),
    bad=(
        DDP + "for x in data():\n    net(x).sum().backward()\nif rank == 0:\n    net.save_pretrained('out')\n" + RUN,
        DDP + "print(net.config.hidden_size)\n" + RUN,
    ),
    good=(
        DDP + "if rank == 0:\n    net.module.save_pretrained('out')\n" + RUN,
        DDP + "print(net.config.hidden_size if hasattr(net, 'config') else 0)\n" + RUN,
        DDP + "net.step = 0\nprint(net.step)\n" + RUN,
    ),
)
def attribute_of_the_module(job: LintJob) -> Iterator[LintFinding]:
    """The wrapper has its own methods and those of every module; the model's own stand behind `.module`."""
    for each in courses(job):
        for _, deed in of(each.ranks, "not the wrapper's"):
            node = deed.node
            if not isinstance(node, ast.Attribute) or len(each.ranks) < 2 or _is_careful(each, node):
                continue
            yield LintFinding(
                span=each.code.span(node),
                summary=f"{ast.unparse(node)} is asked of the wrapper, and {node.attr} is the model's own",
                happens=f"AttributeError: 'DistributedDataParallel' object has no attribute '{node.attr}'.",
                fix=f"Write {ast.unparse(node.value)}.module.{node.attr} (accelerate: unwrap_model first).",
            )
            break


def _is_careful(each: Courses, node: ast.Attribute) -> bool:
    """It asks first, is ready for another model, or the text puts the attribute there."""
    words = ast.unparse(node)
    if f"hasattr({ast.unparse(node.value)}" in each.code.text or f"{words} =" in each.code.text:
        return True
    return any(
        isinstance(above, ast.Try)
        or (isinstance(above, (ast.If, ast.IfExp))
            and _ASKS.search(ast.unparse(above.test).lower()))
        for above in each.code.around(node)
    )  # fmt: skip
