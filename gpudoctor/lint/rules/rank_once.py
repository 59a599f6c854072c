"""Rules of what one rank does, or all of them, where it is the other that is meant: T41, T97, U12 to U14."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import OpenValue, Thing, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, HEAD, JOINED, RUN, of

_NORM = DDP.replace("make()", "torch.nn.Sequential(torch.nn.BatchNorm1d(4))")
_BARE = JOINED + "net = torch.nn.Linear(4, 4)\n"
_WRAP = "net = torch.nn.parallel.DistributedDataParallel(net.cuda())\n"


@rule(
    "T41",
    title="What stands in the environment is made a number before it is compared with one",
    source="Python: os.environ holds text; '1' == 1 is False, and '2' > 1 a TypeError",
    leads_to=("program-error",),
    bad=(
        HEAD + "rank = os.environ['RANK']\ndist.init_process_group('nccl')\nif rank == 0:\n    save()\n" + RUN,
        HEAD + "if os.environ.get('WORLD_SIZE', '1') > 1:\n    dist.init_process_group('nccl')\n" + RUN,
    ),
    good=(
        HEAD + "rank = int(os.environ['RANK'])\ndist.init_process_group('nccl')\nif rank == 0:\n    save()\n" + RUN,
        HEAD + "if os.environ.get('RANK', '0') == '0':\n    save()\n" + RUN,
    ),
)
def text_beside_a_number(job: LintJob) -> Iterator[LintFinding]:
    """A rank that is text is never 0: what rank 0 is to do, nobody does."""
    for each in courses(job):
        for _, deed in of(each.ranks[:1], "text beside a number"):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"the text {deed.value!r} is compared with a number",
                happens="It is never equal: no rank takes this branch."
                if deed.more
                else "TypeError: '>' not supported between instances of 'str' and 'int'.",
                fix='Make it a number where it is read: int(os.environ["RANK"]).',
            )
            break


@rule(
    "T97",
    title="What is to be done once is done by one rank",
    severity="warning",
    source="openpi#868, neuralforecast#1441: the second that removes or makes a folder finds it gone, or there;"
    " wandb.init begins a run in each process",
    bad=(
        DDP + "import shutil\nshutil.rmtree('out')\n" + RUN,
        DDP + "os.makedirs('out')\n" + RUN,
        DDP + "import wandb\nwandb.init(project='a')\n" + RUN,
    ),
    good=(
        DDP + "import shutil\nif rank == 0:\n    shutil.rmtree('out')\n    os.makedirs('out')\ndist.barrier()\n" + RUN,
        DDP + "import shutil\nshutil.rmtree(f'out{rank}')\nos.makedirs('out', exist_ok=True)\n" + RUN,
        DDP + "import wandb\nwandb.init(project='a', group='all')\n" + RUN,
        DDP + "import wandb\nif rank == 0:\n    wandb.init(project='a')\n" + RUN,
        DDP + "import wandb\nfrom groups import log_rank\nif log_rank():\n    wandb.init(project='a')\n" + RUN,
    ),
)  # fmt: skip
def done_by_all_ranks(job: LintJob) -> Iterator[LintFinding]:
    """All ranks of a node see one disk: of those that remove or make the same folder at once, one comes first."""
    for each in courses(job):
        for what, says, happens in (
            ("removed", "every rank removes this", "The ranks that come second end: FileNotFoundError."),
            ("folder", "every rank makes this folder, without exist_ok", "All but the first end: FileExistsError."),
            ("logs a run", "every rank begins a run of wandb", "One training is logged as many times as it has ranks."),
        ):
            deed = _by_all(each, what)
            if deed is not None:
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=says,
                    happens=happens,
                    fix="Do it on rank 0 alone, with a barrier behind it where the others build on it"
                    + ("; or write exist_ok=True." if what == "folder" else "."),
                )


def _by_all(each: Courses, what: str) -> Deed | None:
    """The first that two ranks of one node do with the same, and nothing catches."""
    seen: dict[tuple[int, int, int], int] = {}
    for rank, deed in of(each.ranks, what):
        is_alike = deed.value is not None and not (isinstance(deed.value, OpenValue) and deed.value.is_own)
        allowed = deed.more if what != "logs a run" else deed.value
        if not is_alike or allowed is True or (rank.world or 0) < 2 or _is_caught(each, deed):
            continue
        place = (id(deed.node), rank.seat.node, key_of(deed.value))
        if seen.setdefault(place, rank.seat.rank) != rank.seat.rank:
            return deed
    return None


def _is_caught(each: Courses, deed: Deed) -> bool:
    """What it raises is caught, or it stands under a condition that speaks of ranks: where it could not be
    followed (`if groups.tp_rank == 0`), nobody knows who does it."""
    return any(
        isinstance(above, ast.Try)
        or (isinstance(above, ast.If) and _OF_RANKS.search(ast.unparse(above.test)) is not None)
        for above in each.code.around(deed.node)
    )


_OF_RANKS = lazy_re(r"rank|\bis_\w*(?:main|master|primary|zero|leader)|main_process|global_zero", re.IGNORECASE)


@rule(
    "U12",
    title="A rank has one GPU, and DataParallel is not for it",
    severity="warning",
    source="torch/nn/parallel/data_parallel.py: all GPUs where device_ids is not given; it averages nothing between"
    " processes",
    bad=(
        _BARE + "net = torch.nn.DataParallel(net.cuda())\n" + RUN,
        _BARE + "net = torch.nn.DataParallel(net.cuda(), device_ids=[0, 1])\n" + RUN,
    ),
    good=(
        _BARE + _WRAP + RUN,
        _BARE + "net = torch.nn.DataParallel(net.cuda(), device_ids=[torch.cuda.current_device()])\n" + _WRAP + RUN,
    ),
)
def data_parallel_in_each_rank(job: LintJob) -> Iterator[LintFinding]:
    """Each process then uses all GPUs of the node, and each trains a model of its own."""
    for each in courses(job):
        for rank, deed in of(each.ranks[:1], "data parallel"):
            is_single = isinstance(deed.value, (list, tuple)) and len(deed.value) == 1
            if deed.is_sure and (rank.world or 0) > 1 and not is_single and not isinstance(deed.value, OpenValue):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"each of {rank.world} ranks spreads its model over all GPUs by DataParallel",
                    happens="Every process uses every GPU, and nothing averages the ranks' gradients.",
                    fix="Wrap it in DistributedDataParallel(model, device_ids=[local_rank]).",
                )


@rule(
    "U13",
    title="A wrapped model with buffers is called once before a backward",
    severity="warning",
    source="torch/nn/parallel/distributed.py: each forward broadcasts the buffers in place (broadcast_buffers);"
    " pytorch#22095",
    leads_to=("program-error",),
    bad=(
        _NORM + "for x, y in data():\n    (net(x).mean() - net(y).mean()).backward()\n" + RUN,
        _NORM + "for x, y in data():\n    a = net(x)\n    b = net(y)\n    (a - b).sum().backward()\n" + RUN,
    ),
    good=(
        _NORM + "for x, y in data():\n    net(x).mean().backward()\n    net(y).mean().backward()\n" + RUN,
        _NORM.replace("make().cuda()", "").replace("cuda())\n", "cuda(), broadcast_buffers=False)\n")
        + "for x, y in data():\n    (net(x).mean() - net(y).mean()).backward()\n" + RUN,
    ),
)  # fmt: skip
def buffers_between_two_forwards(job: LintJob) -> Iterator[LintFinding]:
    """The second forward changes batch norm's buffers, which the first one's backward still needs."""
    for each in courses(job):
        if len(each.ranks) < 2 or "broadcast_buffers" in each.code.text:
            continue
        open_since: dict[int, Deed] = {}
        for deed in each.ranks[0].deeds:
            if deed.what == "backward":
                open_since.clear()
            elif deed.what == "forward" and isinstance(deed.value, Thing) and deed.is_sure:
                before = open_since.setdefault(deed.value.key, deed)
                inner = deed.value.fields.get("inner")
                has_norm = isinstance(inner, Thing) and inner.fields.get("norm") is True
                if before is not deed and has_norm and "eval()" not in each.code.text:
                    yield LintFinding(
                        span=each.code.span(deed.node),
                        summary="the wrapped model, which has batch norm, is called again before the backward",
                        happens="RuntimeError: one of the variables needed for gradient computation has been modified"
                        " by an inplace operation.",
                        fix="Tell DistributedDataParallel broadcast_buffers=False, or call it once with both batches.",
                    )
                    return


@rule(
    "U14",
    title="The keys that are loaded are those that were saved",
    source="DistributedDataParallel.state_dict: its keys begin with module.; Module.load_state_dict: Missing key(s)",
    leads_to=("program-error",),
    bad=(
        _BARE + "if os.path.exists('a'):\n    net.load_state_dict(torch.load('a', map_location='cpu'))\n" + _WRAP
        + "if rank == 0:\n    torch.save(net.state_dict(), 'a')\n" + RUN,
        _BARE + "if os.path.exists('a'):\n    net.load_state_dict(torch.load('a', map_location='cpu')['net'])\n" + _WRAP
        + "if rank == 0:\n    torch.save({'net': net.state_dict()}, 'a')\n" + RUN,
        _BARE + "if os.path.exists('a'):\n    net.load_state_dict(torch.load('a', map_location='cpu'))\n"
        "net = torch.compile(net)\n" + _WRAP + "if rank == 0:\n    torch.save(net.module.state_dict(), 'a')\n" + RUN,
    ),
    good=(
        _BARE + "if os.path.exists('a'):\n    net.load_state_dict(torch.load('a', map_location='cpu'))\n" + _WRAP
        + "if rank == 0:\n    torch.save(net.module.state_dict(), 'a')\n" + RUN,
        _BARE + _WRAP + "if os.path.exists('a'):\n    net.load_state_dict(torch.load('a', map_location='cpu'))\n"
        "if rank == 0:\n    torch.save(net.state_dict(), 'a')\n" + RUN,
    ),
)  # fmt: skip
def keys_of_the_wrapper(job: LintJob) -> Iterator[LintFinding]:
    """What the wrapped model saves, a bare one does not know, and the other way round."""
    for each in courses(job):
        plain = each.code.text.replace(".module.", "").replace("._orig_mod.", "")
        if "module." in plain or "_orig_mod" in plain or "strict=False" in plain:
            continue
        saved: dict[tuple[int, str], str] = {}
        for _, deed in of(each.ranks, "save"):
            parts = deed.more if isinstance(deed.more, dict) else {"": deed.more}
            for name, part in parts.items():
                if isinstance(part, Thing) and part.kind == "state":
                    saved[key_of(deed.value), name] = part.fields["prefix"]
        for _, deed in of(each.ranks, "takes a state"):
            has = saved.get(deed.value, deed.more)
            if has != deed.more:
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"a model whose keys begin {_begin(deed.more)} loads what one has saved whose keys begin"
                    f" {_begin(has)}",
                    happens="RuntimeError: Missing key(s) in state_dict, Unexpected key(s) in state_dict.",
                    fix="Save the bare model's state_dict() (net.module of a wrapped, net._orig_mod of a compiled one),"
                    " and load it into the bare model.",
                )
                break


def _begin(prefix: str | None) -> str:
    return f"with `{prefix}`" if prefix else "with no prefix"
