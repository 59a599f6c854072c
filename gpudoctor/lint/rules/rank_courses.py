"""Rules of what the ranks of a program do beside each other, followed through its text: T54 to T57, T60, T61.

`lint/courses` follows a few ranks of each start; here they are held against each other and against the start.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.compare import Parting, parting
from gpudoctor.lint.courses.events import CourseCollective, Deed
from gpudoctor.lint.courses.follow import RankCourse, collectives
from gpudoctor.lint.courses.members import members
from gpudoctor.lint.courses.own_data import READS_INSIDE
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.programs import read
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules import collectives as of_collectives, python_ranks

HEAD = "#@ file t.py\nimport os\nimport torch\nimport torch.distributed as dist\n"
JOINED = (
    HEAD
    + "dist.init_process_group('nccl')\nrank = dist.get_rank()\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
)
DDP = JOINED + "net = torch.nn.parallel.DistributedDataParallel(make().cuda())\n"
RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=4 t.py\n"
TWO = (
    "#@ every node\n"
    "srun --nodes=2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d"
    " --rdzv-endpoint=n0:29400 t.py\n"
)
AVERAGES = lazy_re(
    r"all_?reduce|reduce_scatter|fully_shard|parallelize|FSDP|FullySharded|DataParallel|DDP\b|deepspeed|accelerat"
    r"|horovod|hvd|apex|fairscale|megatron|distribute_|average_grad|prepare|ZeroRedundancy|DTensor|bagua|colossal"
    r"|\brpc\b|pipelin|broadcast|optim\.Distributed|Distributed\w*Optimizer"
)


def of(ranks: tuple[RankCourse, ...], what: str) -> list[tuple[RankCourse, Deed]]:
    return [(each, deed) for each in ranks for deed in each.deeds if deed.what == what]


@rule(
    "T54",
    title="Every rank comes to the collectives that the others come to",
    source="torch.distributed, accelerate, FSDP and DistributedDataParallel of torch 2.13: which of their calls wait"
    " for all ranks; the program's ranks are followed",
    leads_to=("rank0-only-collective",),
    bad=(
        DDP + "best = 9.0\nfor epoch in range(900):\n    for x in data():\n        net(x).sum().backward()\n"
        "    if rank == 0:\n        loss = check(net.module)\n        if loss > best:\n            break\n"
        "    dist.barrier()\n" + RUN,
        JOINED + "pair = [0, 1] if rank < 2 else [2, 3]\ngroup = dist.new_group(ranks=pair)\ndist.barrier()\n" + RUN,
        DDP + "def fit():\n    for x in data():\n        net(x).sum().backward()\n"
        "        if rank == 0 and is_bad(net.module):\n"
        "            return\nfit()\ndist.barrier()\n" + RUN,
    ),
    good=(
        DDP + "for epoch in range(900):\n    net(data()).sum().backward()\n    stop = torch.zeros(1).cuda()\n"
        "    if rank == 0 and check(net.module) > 1:\n        stop += 1\n    dist.broadcast(stop, 0)\n"
        "    if stop.item():\n"
        "        break\n    dist.barrier()\n" + RUN,
        DDP + "for x in data():\n    net(x).sum().backward()\n    if rank == 0:\n        for y in x:\n"
        "            if y.is_last:\n                break\n    dist.barrier()\n" + RUN,
        JOINED + "one, two = dist.new_group([0, 1]), dist.new_group([2, 3])\n"
        "dist.all_reduce(torch.ones(1).cuda(), group=one if rank < 2 else two)\n" + RUN,
        JOINED + "if rank == 0:\n    download()\n    dist.barrier()\nelse:\n    dist.barrier()\n    load()\n" + RUN,
        DDP + "def told(make, group):\n    own = [make() if rank == 0 else None]\n"
        "    dist.broadcast_object_list(own, src=0, group=group)\n    return own[0]\n"
        "if told(find, dist.new_group(backend='gloo')) is not None:\n    dist.barrier()\n" + RUN,
        DDP + "def size(m):\n    if m is None:\n        return 0\n    return len(list(m.parameters()))\ndef show(m):\n"
        "    print(size(m))\nif rank == 0:\n    show(net)\nif not resumed:\n    dist.barrier()\n" + RUN,
    ),
)  # fmt: skip
def ranks_part_at_a_collective(job: LintJob) -> Iterator[LintFinding]:
    """A collective waits for all ranks of its group. Whoever leaves a loop, returns or takes a branch alone leaves the
    others waiting in the next one, or meets them in another one."""
    told = {finding.span.line for finding in of_collectives.hidden_collective_on_one_rank.judge(job)}
    for each in courses(job):
        code = each.code
        program = read(code)
        known = told | {place.span.line for place in (program.on_one_rank if program is not None else ())}
        if any(code.holds(line) for line in known):
            continue  # what stands below such a condition is told as that
        first, *others = members(each.ranks)
        for other in others:
            here, there = first.seat.rank, other.seat.rank
            found = parting(first.events, other.events, (here, there))
            if found is None:
                continue
            found = _at_the_condition(each.code, found)
            node = found.node
            if not isinstance(node, (ast.expr, ast.stmt)):
                continue
            one, two = (here, there) if found.one else (there, here)
            behind = (
                f"{_shown(found.other)}, line {each.code.line_of(found.other.node)}" if found.other is not None else ""
            )
            if found.leaves:
                where = "the loop" if found.leaves in ("break", "continue") else "the function"
                summary = f"rank {one} may leave {where} here, and rank {two} goes on" + (
                    f" to {behind}" if behind else ""
                )
            elif behind:
                summary = f"rank {one} comes to {found.call}, and rank {two} to {behind}"
            else:
                summary = f"rank {one} comes to {found.call}, and rank {two} does not"
            test = found.below
            if isinstance(test, ast.expr) and each.code.scope_of(test) is not each.code.scope_of(node):
                summary += f" (line {each.code.line_of(node)}): it is called below `if {ast.unparse(test)[:60]}`"
                node = test
            yield LintFinding(
                span=each.code.span(node),
                summary=summary,
                happens="Each waits for the other until the time-out, or takes data of one call for that of another.",
                fix="Call it on every rank, in the same order; what one rank alone knows (a loss, whether a file is"
                " there), it broadcasts, and all decide by that.",
            )
            break


def _shown(event: CourseCollective) -> str:
    return event.call


def _at_the_condition(code: PythonCode, found: Parting) -> Parting:
    """Of two calls that do not meet, the one below a condition is shown: it is the one too many, or too few."""
    other = found.other
    if (
        not isinstance(found.node, ast.expr)
        or other is None
        or found.leaves
        or _is_below_if(code, found.node)
        or not _is_below_if(code, other.node)
    ):
        return found
    mine = CourseCollective(found.call, found.node)
    return Parting(other.node, other.call, not found.one, mine, below=other.below)


def _is_below_if(code: PythonCode, node: ast.AST) -> bool:
    for above in code.around(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, ast.If):
            return True
    return False


@rule(
    "T55",
    title="The ranks that a program's processes take are those of its world, each once",
    source="torch.distributed.init_process_group of torch 2.13: rank is a number from 0 to world_size - 1, and all of"
    " them come",
    bad=(
        HEAD + "import torch.multiprocessing as mp\ndef go(i, world):\n"
        "    dist.init_process_group('nccl', rank=i, world_size=world)\n"
        "if __name__ == '__main__':\n    mp.spawn(go, nprocs=2, args=(1,))\n#@ every node\npython t.py\n",
        HEAD + "rank = int(os.environ['LOCAL_RANK'])\n"
        "dist.init_process_group('nccl', rank=rank, world_size=8)\n" + TWO,
    ),
    good=(
        HEAD + "import torch.multiprocessing as mp\ndef go(i, world):\n    os.environ['MASTER_ADDR'] = 'localhost'\n"
        "    os.environ['MASTER_PORT'] = '29511'\n    dist.init_process_group('nccl', rank=i, world_size=world)\n"
        "if __name__ == '__main__':\n    mp.spawn(go, nprocs=2, args=(2,))\n#@ every node\npython t.py\n",
        HEAD + "rank = int(os.environ['RANK'])\ndist.init_process_group('nccl', rank=rank, world_size=8)\n" + TWO,
    ),
)  # fmt: skip
def ranks_are_no_world(job: LintJob) -> Iterator[LintFinding]:
    """init_process_group waits until each number from 0 to its world size has come, and takes no other one."""
    for each in courses(job):
        joins = [(rank, deed) for rank, deed in of(each.ranks, "join") if deed.is_sure and not rank.seat.is_assumed]
        taken: dict[int, int] = {}
        worlds = Counter(deed.value for _, deed in joins)  # of processes that are started one world after the other
        if len({*worlds.values()}) == 1 and all(len(worlds) == world for _, world in worlds):
            continue
        for follower, deed in joins:
            rank, world = deed.value
            seat = follower.seat.rank
            if type(rank) is not int or type(world) is not int or world < 1 or len(each.ranks) < 2:
                continue
            if rank >= world:
                summary = f"process {seat} of the start says rank {rank} of a world of {world}"
            elif rank in taken and taken[rank] != seat:
                summary = f"processes {taken[rank]} and {seat} of the start both say rank {rank} of {world}"
            else:
                taken.setdefault(rank, seat)
                continue
            yield LintFinding(
                span=each.code.span(deed.node),
                summary=summary,
                happens="torch refuses the rank, or all wait for a rank that nobody is.",
                fix="Number the processes of all nodes from 0 on without a gap, and name as many as the world size.",
            )
            break


@rule(
    "T56",
    title="A model stands where device_ids says, and a collective of NCCL gets what is on a GPU",
    source="torch 2.13: DistributedDataParallel.__init__ (device_ids and the module's devices), ProcessGroupNCCL (no"
    " backend for the device type cpu)",
    bad=(
        JOINED + "gpu = rank + 2\nnet = torch.nn.Linear(4, 4).to(f'cuda:{gpu}')\n"
        "net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])\n" + RUN,
        JOINED + "hits = torch.tensor([right(), seen()])\ndist.all_reduce(hits)\n" + RUN,
    ),
    good=(
        JOINED + "net = torch.nn.Linear(4, 4).to(f'cuda:{rank}')\n"
        "net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])\n" + RUN,
        JOINED + "hits = torch.tensor([right(), seen()], device='cuda')\ndist.all_reduce(hits)\n" + RUN,
    ),
)  # fmt: skip
def tensor_is_elsewhere(job: LintJob) -> Iterator[LintFinding]:
    """Where each rank has put a model or a tensor is followed from its rank."""
    for each in courses(job):
        told: set[int] = set()
        for follower, deed in of(each.ranks, "wrap"):
            ids, there, line = deed.value, deed.more, each.code.line_at(deed.node)
            if type(ids) is int and type(there) is int and ids != there and deed.is_sure and line not in told:
                told.add(line)
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"on rank {follower.seat.rank} the model is on GPU {there}, and device_ids says [{ids}]",
                    happens="DistributedDataParallel ends: its parameters are on another device than device_ids.",
                    fix=f"Name the GPU that the model was moved to: {there} on this rank.",
                )
        for _, deed in of(each.ranks, "tensor"):
            line = each.code.line_at(deed.node)
            if deed.value == "cpu" and deed.more == "nccl" and line not in told:
                told.add(line)
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary="what it is given was made on the CPU, and the group's backend is NCCL",
                    happens="torch ends: No backend type associated with device type cpu.",
                    fix='Make it on the GPU (device="cuda"), or join with backend="cpu:gloo,cuda:nccl".',
                )


@rule(
    "T61",
    title="The GPU that a rank names is one of its node",
    source="CUDA: invalid device ordinal; a node's GPUs are counted from 0",
    bad=(
        HEAD + "if 'RANK' in os.environ:\n    rank = int(os.environ['RANK'])\nelse:\n    rank = 0\n"
        "torch.cuda.set_device(rank)\ndist.init_process_group('nccl')\n" + TWO,
        HEAD + "gpu = int(os.environ['LOCAL_RANK']) + 2\ntorch.cuda.set_device(gpu)\ndist.init_process_group('nccl')\n"
        "#@ every node\nCUDA_VISIBLE_DEVICES=2,3 torchrun --standalone --nproc-per-node=2 t.py\n",
    ),
    good=(
        HEAD + "if 'RANK' in os.environ:\n    rank = int(os.environ['LOCAL_RANK'])\nelse:\n    rank = 0\n"
        "torch.cuda.set_device(rank)\ndist.init_process_group('nccl')\n" + TWO,
        HEAD + "gpu = int(os.environ['LOCAL_RANK']) + 2\ntorch.cuda.set_device(gpu)\ndist.init_process_group('nccl')\n"
        "#@ every node\ntorchrun --standalone --nproc-per-node=2 t.py\n",
    ),
)  # fmt: skip
def gpu_of_another_node(job: LintJob) -> Iterator[LintFinding]:
    """The number is followed from the rank's place: on the second node the rank among all goes on counting, and what
    CUDA_VISIBLE_DEVICES shows is counted from 0."""
    told = {finding.span.line for finding in python_ranks.rank_of_all_as_device.judge(job)}
    for each in courses(job):
        if "CUDA_VISIBLE_DEVICES" in each.code.text or any(
            rank.seat.is_assumed or rank.backend == "gloo" for rank in each.ranks
        ):
            continue
        for follower, deed in of(each.ranks, "device"):
            seat, number = follower.seat, deed.value
            if type(number) is not int or not deed.is_sure or each.code.line_at(deed.node) in told:
                continue
            goes_on = seat.node > 0 and number == seat.rank >= seat.each
            beyond = number >= seat.gpus if seat.gpus is not None else goes_on
            if beyond and seat.gpus != 0:
                has = f"sees {seat.gpus}" if seat.gpus is not None else f"has {seat.each} ranks on its node"
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"rank {seat.rank} names GPU {number}, and {has}",
                    happens="invalid device ordinal: CUDA counts the GPUs of a node from 0.",
                    fix='Take the rank on the node: int(os.environ["LOCAL_RANK"]).',
                )
                break


@rule(
    "T57",
    title="The root of a collective is one of its group",
    source="torch.distributed of torch 2.13: src and dst are ranks of the world; get_group_rank refuses those outside",
    bad=(
        JOINED
        + "two = dist.new_group([2, 3])\nif rank > 1:\n    dist.broadcast(torch.ones(1).cuda(), 0, group=two)\n"
        + RUN,
        JOINED + "one, two = dist.new_group([0, 1]), dist.new_group([2, 3])\nmine = one if rank < 2 else two\n"
        "dist.gather(torch.ones(1).cuda(), out(), dst=0, group=mine)\n" + RUN,
        JOINED + "dist.broadcast(torch.ones(1).cuda(), src=rank)\n" + RUN,
    ),
    good=(
        JOINED
        + "two = dist.new_group([2, 3])\nif rank > 1:\n    dist.broadcast(torch.ones(1).cuda(), 2, group=two)\n"
        + RUN,
        JOINED + "dist.broadcast(torch.ones(1).cuda(), 0)\n" + RUN,
    ),
)
def root_outside_its_group(job: LintJob) -> Iterator[LintFinding]:
    """`src` and `dst` count in the world, and must be members of the group that is named beside them."""
    for each in courses(job):
        for follower, deed in of(each.ranks, "peer"):
            members, world = deed.more, follower.world
            outside = deed.value not in members if members is not None else world is not None and deed.value >= world
            if outside and not (members is None and follower.seat.is_assumed):
                group = (
                    f"the group of ranks {', '.join(map(str, members))}"
                    if members is not None
                    else f"a world of {world}"
                )
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"rank {follower.seat.rank} names rank {deed.value} as root, which is not in {group}",
                    happens="torch ends: the rank is not part of the group.",
                    fix="Name a member by its rank in the world: dist.get_global_rank(group, 0).",
                )
                break
        yield from _roots_apart(each)


def _roots_apart(each: Courses) -> Iterator[LintFinding]:
    """The roots that two ranks of one group name at one place, in their order."""
    named: dict[tuple[int, object], dict[int, list[object]]] = {}
    for follower, deed in of(each.ranks, "peer"):
        members = tuple(deed.more) if deed.more is not None else None
        named.setdefault((id(deed.node), members), {}).setdefault(follower.seat.rank, []).append(deed.value)
    nodes = {id(deed.node): deed.node for _, deed in of(each.ranks, "peer")}
    for (node, _), by_rank in named.items():
        (first, roots), *others = by_rank.items()
        apart = next((item for item in others if len(item[1]) == len(roots) and item[1] != roots), None)
        if apart is not None:
            yield LintFinding(
                span=each.code.span(nodes[node]),
                summary=f"rank {first} names rank {roots[0]} as root, and rank {apart[0]} names {apart[1][0]}",
                happens="Each rank waits for another root: they hang, or each keeps what it had.",
                fix="Name one root on all ranks: src=0.",
            )
            return


@rule(
    "T60",
    title="The gradients of all ranks are averaged",
    severity="warning",
    source="DistributedDataParallel of torch 2.13: gradients are averaged for what its own forward has computed",
    bad=(
        DDP + "for x in data():\n    a = net.module.encode(x)\n    a.sum().backward()\n    opt.step()\n" + RUN,
        JOINED + "net = torch.nn.Linear(4, 4).cuda()\nopt = torch.optim.SGD(net.parameters(), 0.1)\nfor x in data():\n"
        "    net(x).sum().backward()\n    opt.step()\n" + RUN,
    ),
    good=(
        DDP + "for x in data():\n    net(x).sum().backward()\n    opt.step()\n"
        "torch.save(net.module.state_dict(), 'a')\n"
        .replace("torch.save(net", "if rank == 0:\n    torch.save(net") + RUN,
        JOINED + "net = torch.nn.Linear(4, 4).cuda()\nopt = torch.optim.SGD(net.parameters(), 0.1)\nfor x in data():\n"
        "    net(x).sum().backward()\n    for p in net.parameters():\n        dist.all_reduce(p.grad)\n"
        "        p.grad /= 4\n    opt.step()\n" + RUN,
    ),
)  # fmt: skip
def ranks_train_apart(job: LintJob) -> Iterator[LintFinding]:
    """Without DistributedDataParallel's own forward, or a reduction of the gradients, each rank trains a model of its
    own, and only one of them is saved."""
    for each in courses(job):
        first = each.ranks[0]
        backward = next((deed for deed in first.deeds if deed.what == "backward"), None)
        if backward is None or len(each.ranks) < 2 or first.seat.world < 2:
            continue
        forwards = [event for event in collectives(first.events) if event.call.endswith("forward")]
        inside = next((deed for deed in first.deeds if (deed.what == "inside" and _computes(each.code, deed.node))
                       or deed.what == "past the wrapper"), None)  # fmt: skip
        joined = any(deed.what == "join" and deed.is_sure for deed in first.deeds)
        if inside is not None and not forwards:
            yield LintFinding(
                span=each.code.span(inside.node),
                summary=f"the training step calls {each.code.words(inside.node).partition('(')[0]}, past"
                " DistributedDataParallel",
                happens="Gradients are not averaged: each rank trains a model of its own.",
                fix="Call the wrapped model itself; what its forward shall do it can be told by an argument.",
            )
        elif joined and not first.wraps and not AVERAGES.search(each.code.text) and "optim" in each.code.text:
            yield LintFinding(
                span=each.code.span(backward.node),
                summary=f"{first.seat.world} ranks call backward, and nothing averages their gradients",
                happens="Each rank trains a model of its own.",
                fix="Wrap the model in DistributedDataParallel once the group is made.",
            )


def _computes(code: PythonCode, node: ast.AST) -> bool:
    """`net.module(x)`, `net.module.encode(x)`, and not `net.module.state_dict()`."""
    above = code.parents.get(node)
    if isinstance(above, ast.Call) and above.func is node:
        return True
    whole = code.parents.get(above) if isinstance(above, ast.Attribute) and above.attr not in READS_INSIDE else None
    return isinstance(whole, ast.Call) and whole.func is above
