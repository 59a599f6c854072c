"""Rules of the parts of the data that the ranks take: T85, T92."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import Thing, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, HEAD, RUN, TWO, of

_SAMPLED = "from torch.utils.data import DataLoader, DistributedSampler\nsampler = DistributedSampler(data{})\n"
_MESHES = lazy_re(r"mesh|tp_|pp_|cp_|sp_|dp_|tensor_parallel|model_parallel|data_parallel|new_group|mpu\.")
"""Words of programs in which some ranks are to see the same data."""


@rule(
    "T85",
    title="The ranks' samplers cut one order into one part for each rank",
    source="torch/utils/data/distributed.py: seed should be identical across all processes; each rank takes"
    " indices[rank : total : num_replicas]",
    severity="warning",
    bad=(
        DDP + _SAMPLED.format(", seed=41 + rank") + RUN,
        DDP + _SAMPLED.format(", num_replicas=4, rank=int(os.environ['LOCAL_RANK'])") + TWO,
        DDP + "torch.manual_seed(7 + rank)\na, b = torch.utils.data.random_split(data, [9, 1])\n" + RUN,
        DDP + _SAMPLED.format(", num_replicas=8, rank=rank") + RUN,
        DDP + _SAMPLED.format(", num_replicas=torch.cuda.device_count(), rank=rank") + TWO,
    ),
    good=(
        DDP + _SAMPLED.format(", seed=41") + RUN,
        DDP + _SAMPLED.format(", num_replicas=8, rank=rank") + TWO,
        HEAD + "import torch.multiprocessing as mp\nfrom torch.utils.data import DistributedSampler\n"
        "def go(i, world, fold):\n    dist.init_process_group('nccl', 'tcp://localhost:29511', None, world, i)\n"
        "    return DistributedSampler(parts[fold], num_replicas=world, rank=i)\n"
        "if __name__ == '__main__':\n    for fold in range(3):\n        mp.spawn(go, (4, fold), nprocs=4)\n"
        "#@ every node\npython t.py\n",
        DDP + "torch.manual_seed(7)\na, b = torch.utils.data.random_split(data, [9, 1])\n" + RUN,
        DDP + "torch.manual_seed(7 + rank)\na, b = torch.utils.data.random_split(data, [9, 1],"
        " generator=torch.Generator().manual_seed(1))\n" + RUN,
    ),
)  # fmt: skip
def samplers_that_do_not_fit(job: LintJob) -> Iterator[LintFinding]:
    """Each rank draws the order of all samples by itself and takes its part of it: of other orders the parts overlap,
    and what is one rank's validation is another's training."""
    for each in courses(job):
        differ = _differ(each, "sampler's seed")
        if differ is not None:
            yield LintFinding(
                span=each.code.span(differ.node),
                summary="the sampler's seed is another one on each rank",
                happens="Each rank cuts its part from another order: samples are seen twice, others never.",
                fix="Give all ranks one seed; what is to differ (noise, augmentation) is drawn elsewhere.",
            )
        differ = _differ(each, "split")
        if differ is not None:
            yield LintFinding(
                span=each.code.span(differ.node),
                summary="random_split draws from a generator that each rank has seeded otherwise",
                happens="Each rank splits otherwise: what one keeps for validation, another trains on.",
                fix="Hand it generator=torch.Generator().manual_seed(...), the same on all ranks.",
            )
        yield from _same_part(each)


def _differ(each: Courses, what: str) -> Deed | None:
    """A deed whose known numbers differ between ranks at one place."""
    values: dict[int, set[int]] = {}
    for _, deed in of(each.ranks, what):
        if type(deed.value) is int:
            values.setdefault(id(deed.node), set()).add(deed.value)
            if len(values[id(deed.node)]) > 1:
                return deed
    return None


def _same_part(each: Courses) -> Iterator[LintFinding]:
    taken: dict[tuple[int, int, int], int] = {}
    for follower, deed in of(each.ranks, "sampler"):
        replicas, rank = deed.value
        seat = follower.seat
        if type(replicas) is not int or type(rank) is not int or not deed.is_sure or seat.is_assumed:
            continue
        if replicas <= rank:
            yield LintFinding(
                span=each.code.span(deed.node),
                severity="error",
                summary=f"the sampler of rank {seat.rank} is told rank {rank} of num_replicas {replicas}: the last is"
                f" {replicas - 1}",
                happens=f"ValueError: Invalid rank {rank}, rank should be in the interval [0, {replicas - 1}].",
                fix="Leave num_replicas out, or say dist.get_world_size().",
            )
            return
        other = taken.setdefault((id(deed.node), replicas, rank), seat.rank)
        if replicas > seat.world > 1 and not _MESHES.search(each.code.text):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"the sampler cuts the data into {replicas} parts, and the world has {seat.world} ranks",
                happens=f"{replicas - seat.world} of {replicas} parts are never seen.",
                fix="Leave num_replicas out, or say dist.get_world_size().",
            )
            return
        if other != seat.rank and replicas <= seat.world and not _MESHES.search(each.code.text):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"ranks {other} and {seat.rank} both take part {rank} of {replicas}, in a world of"
                f" {seat.world}",
                happens="They train on the same samples: the second node adds nothing.",
                fix="Leave num_replicas and rank out, or say dist.get_world_size() and dist.get_rank().",
            )
            return


@rule(
    "T92",
    title="A loader is split by the library that splits the others",
    severity="warning",
    source="accelerate/accelerator.py, prepare; ray.train.torch.prepare_data_loader: they put in the sampler",
    bad=(
        HEAD + "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\nacc = Accelerator()\n"
        "loader = DataLoader(data, batch_size=8, shuffle=True)\nnet, opt = acc.prepare(net, opt)\n"
        "for x in loader:\n    acc.backward(net(x))\n    opt.step()\n#@ every node\naccelerate launch"
        " --num_processes 4 t.py\n",
        HEAD + "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
        "def main():\n    acc = Accelerator()\n    net, opt = acc.prepare(net_of(), opt_of())\n"
        "    for x in DataLoader(data, batch_size=8, num_workers=2):\n        acc.backward(net(x))\n"
        "        opt.step()\nmain()\n#@ every node\naccelerate launch --num_processes 4 t.py\n",
    ),
    good=(
        HEAD + "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\nacc = Accelerator()\n"
        "loader = DataLoader(data, batch_size=8, shuffle=True)\nnet, opt, loader = acc.prepare(net, opt, loader)\n"
        "for x in loader:\n    acc.backward(net(x))\n    opt.step()\n#@ every node\naccelerate launch"
        " --num_processes 4 t.py\n",
        HEAD + "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\nacc = Accelerator()\n"
        "loader = DataLoader(data, batch_size=8)\nnet = acc.prepare(net)\nfor x in loader:\n    print(net(x))\n"
        "#@ every node\naccelerate launch --num_processes 4 t.py\n",
    ),
)
def loader_that_nobody_splits(job: LintJob) -> Iterator[LintFinding]:
    """Each process goes through all of the data, and an epoch takes as many times as long as there are processes."""
    for each in courses(job):
        library = next((_SPLITTERS[name] for name in _SPLITTERS if each.code.brings(name)), "")
        if len(each.ranks) < 2 or not each.ranks[0].wraps:
            continue
        first, second = (
            {id(deed.node): deed for deed in rank.deeds if deed.what == "goes through"} for rank in each.ranks[:2]
        )
        for place, deed in first.items():
            other, loader = second.get(place), deed.value
            if other is None or loader.fields.get("plain") is not True or loader.fields.get("sharded") is True:
                continue
            if not library and loader.fields.get("by itself") is not True:
                continue
            if key_of(other.value) != key_of(loader) or not _trains(each, deed) or _splits(each, loader):
                continue
            yield LintFinding(
                span=each.code.span(loader.node),
                summary=f"this loader is trained on, and {library} has not seen it"
                if library
                else "this loader's sampler knows nothing of the ranks: each goes through all of the data",
                happens="Nothing splits its data: each process goes through all of it.",
                fix=f"Hand it to {library} and use what comes back, or give it a DistributedSampler."
                if library
                else "Give it sampler=DistributedSampler(data).",
            )
            break


_SPLITTERS = {
    "accelerate": "accelerator.prepare",
    "ray": "prepare_data_loader",
    "lightning": "fabric.setup_dataloaders",
    "lightning_fabric": "fabric.setup_dataloaders",
    "deepspeed": "deepspeed.initialize(training_data=...)",
}
"""What splits the loaders of each."""


def _trains(each: Courses, deed: Deed) -> bool:
    """A backward stands in the loop."""
    loop = each.code.parents.get(deed.node)
    while loop is not None and not isinstance(loop, (ast.For, ast.AsyncFor)):
        loop = each.code.parents.get(loop)
    return loop is not None and any(
        isinstance(node, ast.Attribute) and node.attr == "backward" for node in walked(loop)
    )


def _splits(each: Courses, loader: Thing) -> bool:
    words = each.code.words(loader.node) if isinstance(loader.node, ast.expr) else ""
    return re.search(r"rank|world|shard|split_dataset_by_node|process_index|num_processes", words) is not None
