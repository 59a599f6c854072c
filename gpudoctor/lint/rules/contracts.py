"""The rule of the contracts of knowledge/api_contracts.py, held against the courses of a program's ranks: U17."""

import ast
from collections.abc import Iterator

from gpudoctor.knowledge.api_contract import ApiContract
from gpudoctor.knowledge.api_contracts import CONTRACTS
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.contract_calls import fits, pattern_of
from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, HEAD, RUN, of

_ACCELERATE = HEAD + "from accelerate import Accelerator\n"
_LAUNCH = "#@ every node\naccelerate launch --multi_gpu --num_processes 2 t.py\n"
_FSDP = (
    "import torch\nimport torch.distributed as dist\n"
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    "dist.init_process_group('nccl')\nnet = FSDP(Net().cuda(){})\n"
)
_OPT = DDP + "opt = torch.optim.SGD(net.parameters(), 0.1)\nfor x in data():\n    net(x).sum().backward()\n"
_TURNS = (
    DDP + "opt = torch.optim.SGD(net.parameters(), 0.1)\nplan = torch.optim.lr_scheduler.StepLR(opt, 3)\n"
    "for x in data():\n    opt.zero_grad()\n    net(x).sum().backward()\n    {}\n    {}\n" + RUN
)
_HALF = (
    DDP + "opt = torch.optim.SGD(net.parameters(), 0.1)\nscaler = torch.amp.GradScaler('cuda')\nfor x in data():\n"
    "    opt.zero_grad()\n    scaler.scale(net(x).sum()).backward()\n"
    "    {}torch.nn.utils.clip_grad_norm_(net.parameters(), 1)\n    {}scaler.step(opt)\n    scaler.update()\n" + RUN
)
_WRAPS = lazy_re(r"prepare_model|DistributedDataParallel|DDP\(|FSDP|\*\w+\)")
_GUARDS = lazy_re(r"rank|main|master|wandb|is_initialized|enabled|disable|use_|logg?er|debug|track|report")
"""Words of conditions that may let the right ranks through alone."""


@rule(
    "U17",
    title="A call of a training library comes as its contract says",
    source="the rows of knowledge/api_contracts.py, each from the library's source",
    leads_to=("program-error",),
    bad=(
        _OPT + "    if rank == 0:\n        opt.step()\n" + RUN,
        _OPT.replace("for x", "def step():\n    if dist.get_rank() == 0:\n        opt.step()\nfor x") + "    step()\n"
        + RUN,
        DDP.replace("make()", "torch.nn.Linear(4, 4)") + "if rank == 0:\n    net.module.load_state_dict(w)\n"
        "for x in data():\n    net(x).sum().backward()\n" + RUN,
        HEAD + "def fold(k):\n    dist.init_process_group('nccl')\n    print(k)\nfor k in range(5):\n    fold(k)\n"
        + RUN,
        DDP + "import wandb\nif rank == 0:\n    wandb.init(project='a')\nfor x in data():\n    loss = net(x).sum()\n"
        "    loss.backward()\n    wandb.log({'loss': loss})\n" + RUN,
        DDP + "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
        "opt = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)\n"
        "if rank == 0:\n    torch.save(opt.state_dict(), 'o.pt')\n" + RUN,
        DDP + "import torchmetrics\nright = torchmetrics.Accuracy(task='binary')\nfor x, y in data():\n"
        "    right.update(net(x), y)\n" + RUN,
        DDP + "from transformers import Trainer\nTrainer(model=net, args=args).train()\n" + RUN,
        _ACCELERATE + "acc = Accelerator(gradient_accumulation_steps=4)\nnet, opt = acc.prepare(net_of(), opt_of())\n"
        "for x in data():\n    acc.backward(net(x))\n    opt.step()\n" + _LAUNCH,
        DDP + "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)\nfor x in data():\n    loss = net(x).sum()\n"
        "    loss.backward()\n    plan.step(loss.item())\n" + RUN,
        _ACCELERATE + "acc = Accelerator()\nnet = net_of()\nacc.prepare(net)\nfor x in data():\n"
        "    acc.backward(net(x))\n" + _LAUNCH,
        DDP + "net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)\n" + RUN,
        DDP + "dist.destroy_process_group()\ndist.barrier()\n" + RUN,
        _OPT + "    opt.step()\n" + RUN,
        _TURNS.format("plan.step()", "opt.step()"),
        _HALF.format("", "scaler.unscale_(opt)\n    "),
        _ACCELERATE + "acc = Accelerator()\nopt, net = acc.prepare(net, opt)\n" + _LAUNCH,
        _ACCELERATE + "acc = Accelerator()\nopt = acc.prepare(torch.optim.SGD(net.parameters(), 0.1))\n"
        "for x in data():\n    opt.zero_grad()\n    acc.backward(net(x))\n    opt.step()\n" + _LAUNCH,
        _OPT + "    opt.zero_grad()\n    opt.step()\n" + RUN,
        DDP + "opt = torch.optim.SGD(net.parameters(), 0.1)\nscaler = torch.amp.GradScaler('cuda')\nfor x in data():\n"
        "    opt.zero_grad()\n    scaler.scale(net(x).sum()).backward()\n    opt.step()\n" + RUN,
        _FSDP.format("") + "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n",
        HEAD + "from datasets import load_dataset\nfrom transformers import Trainer\n"
        "rows = load_dataset('json', split='train', streaming=True).map(words)\n"
        "Trainer(model=net, train_dataset=rows).train()\n" + RUN,
        HEAD + "from multiprocessing import Process\ndef go(rank):\n    torch.cuda.set_device(rank)\n"
        "print(torch.cuda.get_device_name(0))\nfor rank in range(2):\n    Process(target=go, args=(rank,)).start()\n"
        "#@ every node\npython t.py\n",
    ),
    good=(
        _FSDP.format("") + "net.clip_grad_norm_(1.0)\n",
        _FSDP.format(", sharding_strategy=ShardingStrategy.NO_SHARD")
        + "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n",
        _OPT + "    opt.step()\n    opt.zero_grad()\n    if rank == 0:\n        print(x)\n" + RUN,
        DDP + "dist.barrier()\ndist.destroy_process_group()\nif dist.is_initialized():\n    dist.barrier()\n" + RUN,
        _TURNS.format("opt.step()", "plan.step()"),
        _HALF.format("scaler.unscale_(opt)\n    ", ""),
        _ACCELERATE + "acc = Accelerator()\nnet, opt = acc.prepare(net, opt)\n" + _LAUNCH,
        DDP + "a, b = (torch.optim.SGD(net.parameters(), 0.1) for _ in '12')\nfor x in data():\n    a.zero_grad()\n"
        "    net(x).sum().backward()\n    a.step()\n    b.zero_grad()\n    net(x).mean().backward()\n"
        "    b.step()\n" + RUN,
        DDP + "if rank == 0:\n    net.module.load_state_dict(w)\n    save(net)\n" + RUN,
        DDP + "import torch\nplan = torch.optim.lr_scheduler.StepLR(opt, 1)\nfor x in data():\n"
        "    net(x).sum().backward()\n    if rank == 0:\n        plan.step()\n    else:\n        plan.step()\n" + RUN,
        HEAD + "def fold(k):\n    dist.init_process_group('nccl')\n    print(k)\n    dist.destroy_process_group()\n"
        "for k in range(5):\n    fold(k)\n" + RUN,
        DDP + "import wandb\nif rank == 0:\n    wandb.init(project='a')\nfor x in data():\n    loss = net(x).sum()\n"
        "    loss.backward()\n    if rank == 0:\n        wandb.log({'loss': loss})\n" + RUN,
        _ACCELERATE + "acc = Accelerator(log_with='wandb')\nnet = acc.prepare(net_of())\n"
        "if acc.is_main_process:\n    acc.init_trackers('a')\nfor x in data():\n    acc.log({'x': 1})\n" + _LAUNCH,
        DDP + "import torchmetrics\nright = torchmetrics.Accuracy(task='binary').cuda()\nfor x, y in data():\n"
        "    right.update(net(x), y)\n" + RUN,
        _ACCELERATE + "acc = Accelerator(gradient_accumulation_steps=4)\nnet, opt = acc.prepare(net_of(), opt_of())\n"
        "for x in data():\n    with acc.accumulate(net):\n        acc.backward(net(x))\n        opt.step()\n" + _LAUNCH,
        DDP + "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)\nfor x in data():\n    loss = net(x).sum()\n"
        "    loss.backward()\n    seen = loss.detach()\n    dist.all_reduce(seen)\n    plan.step(seen.item())\n" + RUN,
    ),
)  # fmt: skip
def contract_of_a_call(job: LintJob) -> Iterator[LintFinding]:
    """What a call wants of the calls around it: that another comes first, that it comes once, that it is given no
    object of another kind, nothing that one rank alone has computed."""
    for each in courses(job):
        yield from _of_prepare(each)
        for row in CONTRACTS:
            deed = _broken(job, each, row)
            if deed is None:
                continue
            yield LintFinding(
                span=each.code.span(deed.value.made if row.at_object and deed.value.made is not None else deed.node),
                summary=row.summary.format(call=deed.value.name, rank=_rank_of(each, deed)),
                happens=row.happens.format(call=deed.value.name),
                fix=row.fix,
                severity=row.severity,
            )


def _of_prepare(each: Courses) -> Iterator[LintFinding]:
    """accelerator.prepare gives back what it was given in its order, and trains what it was given."""
    prepares = [deed for _, deed in of(each.ranks[:1], "prepares")]
    for deed in prepares:
        above = each.code.parents.get(deed.node)
        target = above.targets[0] if isinstance(above, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or not isinstance(deed.node, ast.Call):
            continue
        back, given = [ast.unparse(name) for name in target.elts], [ast.unparse(name) for name in deed.node.args]
        if back != given and sorted(back) == sorted(given):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=f"prepare gives back in the order in which it is given: {', '.join(given)}, and the names are"
                f" {', '.join(back)}",
                happens="Each name holds another object then: AttributeError or TypeError at the first use.",
                fix=f"Write {', '.join(given)} = {ast.unparse(deed.node)}.",
            )
            return
    backward = next((deed for _, deed in of(each.ranks[:1], "backward") if deed.loops), None)
    if not prepares or not all(deed.value for deed in prepares) or backward is None or len(each.ranks) < 2:
        return
    if not _WRAPS.search(each.code.text):
        yield LintFinding(
            span=each.code.span(prepares[0].node),
            summary="accelerator.prepare is given no model: what is trained is wrapped by nothing",
            happens="Nothing averages the gradients: each process trains a model of its own.",
            fix="Give it the model too: model, optimizer, loader = accelerator.prepare(model, optimizer, loader).",
            severity="warning",
        )


def _broken(job: LintJob, each: Courses, row: ApiContract) -> Deed | None:
    """The first call that does not keep it."""
    ranks = (*each.ranks, *((each.parent,) if each.parent is not None else ()))
    names = {deed.value.name for _, deed in of(ranks, "called")}
    if not any(fits(row.call, name) for name in names) or (
        row.somewhere and not any(fits(row.other, deed.value.name) for _, deed in of(each.ranks, "called"))
    ):
        return None
    if (row.unless and pattern_of(row.unless).search(each.code.text)) or (
        row.told and not pattern_of(row.told).search(job.text)
    ):
        return None
    for rank in ranks:
        calls = [deed for deed in rank.deeds if deed.what == "called"]
        for place, deed in enumerate(calls):
            if not fits(row.call, deed.value.name) or not _is_meant(row, deed):
                continue
            if _is_kept(each, row, calls, place, rank is each.parent):
                continue
            assert isinstance(deed, Deed)
            return deed
    return None


def _rank_of(each: Courses, deed: Deed) -> int:
    return next((rank.seat.rank for rank in each.ranks if any(other is deed for other in rank.deeds)), 0)


def _comes(deeds: list[Deed], deed: Deed, calls: list[Deed]) -> bool:
    """A rank comes to this call, or to one of the same name in its stead."""
    nodes = {id(other.node) for other in calls}
    alike = [other for other in deeds if other.value.name == deed.value.name]
    return any(other.node is deed.node or id(other.node) not in nodes for other in alike)


def _is_meant(row: ApiContract, deed: Deed) -> bool:
    if (row.is_sure and not deed.is_sure) or (row.in_a_loop and not deed.loops):
        return False
    return not row.given or any(fits(row.given, mark) for mark in deed.value.given)


def _is_kept(each: Courses, row: ApiContract, calls: list[Deed], place: int, is_parent: bool) -> bool:
    deed = calls[place]

    def others(of_calls: list[Deed]) -> list[Deed]:
        return [
            other
            for other in of_calls
            if fits(row.other, other.value.name) and (not row.same_object or other.value.object == deed.value.object)
        ]

    if row.clause == "once":
        first = next((before for before in range(place) if calls[before].value.name == deed.value.name), None)
        return first is None or not (deed.is_sure and calls[first].is_sure) or bool(others(calls[first:place]))
    if row.clause == "after":
        if row.of_any_rank and any(others([deed for _, deed in of(each.ranks, "called")])):
            return True
        turn = deed.loops  # what stands in the same turn, or in a loop within it
        if row.later and not any(other.loops[: len(turn)] == turn for other in others(calls[place:])):
            return True
        return bool(others(calls[:place])) or _is_guarded(each, deed)
    if row.clause == "not after":
        ended = [at for at in range(place) if row.until and fits(row.until, calls[at].value.name)]
        start = max(ended, default=0)
        found = [at for at in range(start, place) if calls[at] in others(calls[start:place]) and calls[at].is_sure]
        if found and row.before:
            loop = deed.loops[:1]
            return not any(fits(row.before, other.value.name) and other.loops[:1] == loop != ()
                           for other in calls[: found[0]])  # fmt: skip
        return not found
    if row.clause == "beside":
        return not others(calls)
    if row.clause == "with":
        beside = others(calls)
        return not beside or any(other.condition == deed.condition for other in beside) or not _is_counted(each, deed)
    if row.clause == "argument":
        return not any(fits(row.other, mark) for mark in deed.value.given)
    if row.clause == "not":
        return len(each.ranks) < 2
    if row.clause == "kept":
        return not isinstance(each.code.parents.get(deed.node), ast.Expr) or not others(calls)
    if row.clause == "everywhere":
        every = [[other for other in rank.deeds if other.what == "called"] for rank in each.ranks]
        return not all(map(others, every)) or all(_comes(one, deed, calls) for one in every)
    if row.clause == "own":
        return "own" not in deed.value.given or len(each.ranks) < 2
    return each.spawn is None or is_parent  # never: in what a worker runs


def _is_guarded(each: Courses, deed: Deed) -> bool:
    """A condition above it, which nobody knows, speaks of who may come here."""
    return not deed.is_sure and any(_GUARDS.search(test) for test in _tests(each, deed.node))


def _is_counted(each: Courses, deed: Deed) -> bool:
    return any("%" in test for test in _tests(each, deed.node))


def _tests(each: Courses, node: ast.AST) -> Iterator[str]:
    for above in each.code.around(node):
        if isinstance(above, FUNCTIONS):
            return
        if isinstance(above, (ast.If, ast.IfExp)):
            yield ast.unparse(above.test)
