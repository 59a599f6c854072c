"""Rules of what one rank decides by itself, and of calls that torch refuses it: T90, T91."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.courses.compare import decided_alone
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, HEAD, JOINED, RUN, of


@rule(
    "T90",
    title="What one rank alone knows decides for all of them or for none",
    severity="warning",
    source="torch.nn.parallel.DistributedDataParallel: backward waits for all ranks; torch.distributed: so does each"
    " collective",
    leads_to=("uneven-inputs",),
    bad=(
        DDP + "for x in data():\n    loss = net(x).sum()\n    loss.backward()\n    if loss.item() < 0.01:\n"
        "        break\n" + RUN,
        DDP + "for x in data():\n    loss = net(x).mean()\n    if loss > 50:\n        continue\n    loss.backward()\n"
        + RUN,
        DDP + "import random\nfor x in data():\n    net(x).sum().backward()\n    if random.random() < 0.1:\n"
        "        dist.all_reduce(torch.ones(1).cuda())\n" + RUN,
        DDP + "for x in data():\n    try:\n        net(x).sum().backward()\n    except RuntimeError:\n"
        "        continue\n" + RUN,
        DDP + "import signal\nstop = False\ndef ask(number, frame):\n    global stop\n    stop = True\n"
        "signal.signal(signal.SIGUSR1, ask)\nfor x in data():\n    if stop:\n        break\n"
        "    net(x).sum().backward()\n" + RUN,
    ),
    good=(
        DDP + "for x in data():\n    loss = net(x).sum()\n    loss.backward()\n    seen = loss.detach()\n"
        "    dist.all_reduce(seen)\n    if seen.item() < 0.01:\n        break\n" + RUN,
        DDP + "def is_low(loss):\n    if loss.item() < 0.01:\n        return True\n    return False\n"
        "for x in data():\n    loss = net(x).sum()\n    loss.backward()\n"
        "    stop = torch.tensor(float(is_low(loss))).cuda()\n    dist.all_reduce(stop)\n    if stop.item():\n"
        "        break\n" + RUN,
        DDP + "from tools import mean_of_all\nfor x in data():\n    loss = net(x).sum()\n    loss.backward()\n"
        "    if mean_of_all(loss) < 0.01:\n        break\n" + RUN,
        DDP + "for x in data():\n    try:\n        net(x).sum().backward()\n    except RuntimeError:\n"
        "        print(x)\n        raise\n" + RUN,
        DDP + "import random\nrandom.seed(7)\nfor x in data():\n    net(x).sum().backward()\n"
        "    if random.random() < 0.1:\n        dist.all_reduce(torch.ones(1).cuda())\n" + RUN,
    ),
)  # fmt: skip
def one_rank_decides(job: LintJob) -> Iterator[LintFinding]:
    """A loss is that of a rank's own part of the data: one rank's falls below a bound in another step than the
    others'."""
    for each in courses(job):
        if len(each.ranks) < 2:
            continue
        first = each.ranks[0]
        for deed in (deed for deed in first.deeds if deed.what == "caught"):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="a rank that catches an error of its step goes on, and the others wait in backward",
                happens="Out of memory, or a bad batch, comes to one rank: its gradients never come to the others.",
                fix="Let the error end the job, or catch it before the forward, and tell all ranks (dist.all_reduce of"
                " a flag) whether to leave the step out.",
            )
        yield from _uneven(each)
        found = decided_alone(first.events) or decided_alone(each.ranks[1].events)
        if found is None or not isinstance(found.node, (ast.expr, ast.stmt)):
            continue
        call = f"{found.call.call}, line {each.code.line_of(found.call.node)}" if found.call else "the loop"
        if found.leaves == "continue":
            does = f"leaves out {call}"
        elif found.leaves:
            does = "leaves the loop" if found.leaves == "break" else "returns"
        else:
            does = f"comes to {call}, or does not"
        yield LintFinding(
            span=each.code.span(found.node),
            summary=f"each rank {does} by what it alone has computed",
            happens="The ranks decide in different steps: those that go on wait for the one that does not.",
            fix="Let all decide alike: dist.all_reduce the value (or a flag, with dist.ReduceOp.MAX) before the if.",
        )


@rule(
    "T91",
    title="A call of torch.distributed is one that its group can do",
    source="torch/distributed/distributed_c10d.py of torch 2.13: _check_not_self_rank, monitored_barrier",
    bad=(
        JOINED + "x = torch.ones(1).cuda()\nif rank == 0:\n    dist.send(x, dst=1)\nelif rank == 1:\n"
        "    dist.recv(x, src=1)\n" + RUN,
        JOINED + "dist.monitored_barrier()\n" + RUN,
        HEAD + "dist.init_process_group('nccl', timeout=1800)\n" + RUN,
        DDP + "loss = net(x).sum()\ndist.all_reduce(loss.item())\n" + RUN,
        DDP + "seen = torch.ones(2).cuda()\nmean = dist.all_reduce(seen) / 4\n" + RUN,
        JOINED + "objects = [1, 2] if rank == 0 else [None]\ndist.broadcast_object_list(objects, src=0)\n" + RUN,
        JOINED + "mesh = dist.init_device_mesh('cuda', (2, 4), mesh_dim_names=('dp', 'tp'))\n" + RUN,
        JOINED + "mesh = dist.init_device_mesh('cuda', (2, 2), mesh_dim_names=('dp', 'tp'))\n"
        "group = mesh['pp'].get_group()\n" + RUN,
        JOINED + "x = torch.ones(1).cuda()\nparts = [torch.empty_like(x) for _ in range(2)]\n"
        "dist.all_gather(parts, x)\n" + RUN,
    ),
    good=(
        JOINED + "x = torch.ones(1).cuda()\nif rank == 0:\n    dist.send(x, dst=1)\nelif rank == 1:\n"
        "    dist.recv(x, src=0)\n" + RUN,
        JOINED + "slow = dist.new_group(backend='gloo')\ndist.monitored_barrier(slow)\n" + RUN,
        DDP + "loss = net(x).sum().detach()\nwork = dist.all_reduce(loss, async_op=True)\nwork.wait()\n" + RUN,
        JOINED + "objects = [1, 2] if rank == 0 else [None] * 2\ndist.broadcast_object_list(objects, src=0)\n" + RUN,
    ),
)  # fmt: skip
def refused_by_torch(job: LintJob) -> Iterator[LintFinding]:
    """Each rank's own arguments are known where they follow from its rank."""
    for each in courses(job):
        told: set[int] = set()
        for follower, deed in of(each.ranks, "refused"):
            line = each.code.line_at(deed.node)
            if deed.is_sure and line not in told:
                told.add(line)
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=deed.value,
                    happens=f"torch ends rank {follower.seat.rank} here, and the others wait for it.",
                    fix=deed.more,
                )
        yield from _lists(each)


def _uneven(each: Courses) -> Iterator[LintFinding]:
    counts: dict[int, set[int]] = {}
    for _, deed in of(each.ranks, "rounds"):
        counts.setdefault(id(deed.node), set()).add(deed.value)
        if len(counts[id(deed.node)]) > 1 and "oin" not in each.code.text.replace(".join(", ""):
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="ranks go through different numbers of items here, and wait for each other at each",
                happens="The ranks with more steps wait for those that are through.",
                fix="Give all ranks as many (pad, or cut to the smallest), or train within Join([model]).",
            )
            return


def _lists(each: Courses) -> Iterator[LintFinding]:
    lengths: dict[int, set[int]] = {}
    for _, deed in of(each.ranks, "list"):
        here = lengths.setdefault(id(deed.node), set())
        here.add(deed.value)
        if len(here) == 2 and deed.is_sure:
            yield LintFinding(
                span=each.code.span(deed.node),
                summary="ranks give broadcast_object_list lists of different lengths: "
                + " and ".join(map(str, sorted(here))),
                happens="The sizes are broadcast as one tensor, whose length is not that of the others.",
                fix="Give it a list of the same length on all ranks: [None] * n where the objects are not known.",
            )
            return
