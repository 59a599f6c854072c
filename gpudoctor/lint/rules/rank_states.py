"""Rules of what each rank holds beside the others, followed through the program: T84, T86, T88, T89, T98, T99."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.courses.events import Deed
from gpudoctor.lint.courses.follow import RankCourse, collectives
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import OpenValue, Thing, Value, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, HEAD, JOINED, RUN, TWO, of
from gpudoctor.lint.rules.rank_files import OWN_DISKS


@rule(
    "T84",
    title="torch.distributed is asked when the process group is there",
    source="torch 2.13, distributed_c10d.py: Default process group has not been initialized",
    leads_to=("program-error",),
    bad=(
        HEAD + "RANK = dist.get_rank()\ndef main():\n    dist.init_process_group('nccl')\nmain()\n" + RUN,
        HEAD + "def main():\n    dist.barrier()\n    dist.init_process_group('nccl')\nmain()\n" + RUN,
    ),
    good=(
        HEAD + "dist.init_process_group('nccl')\nRANK = dist.get_rank()\n" + RUN,
        HEAD + "RANK = dist.get_rank() if dist.is_initialized() else 0\ndist.init_process_group('nccl')\n" + RUN,
    ),
)
def asked_before_the_group(job: LintJob) -> Iterator[LintFinding]:
    """A module's own lines run when it is loaded, before main() makes the group."""
    for each in courses(job):
        first = each.ranks[0]
        joins = next((place for place, deed in enumerate(first.deeds) if deed.what == "join"), -1)
        early = [deed for deed in first.deeds[: max(joins, 0)] if deed.what == "early" and deed.is_sure]
        if early:
            yield LintFinding(
                span=each.code.span(early[0].node),
                summary=f"{each.code.words(early[0].node).partition('(')[0]} is called before init_process_group, line"
                f" {each.code.line_of(first.deeds[joins].node)}",
                happens="ValueError: Default process group has not been initialized.",
                fix="Make the group first; before it the rank stands in os.environ['RANK'].",
            )


@rule(
    "T86",
    title="A file is read when it is written, and removed when it is read",
    source="pytorch#194614, #196591: between ranks only a collective says that the other one is done",
    severity="warning",
    leads_to=("program-error",),
    bad=(
        DDP + "if rank == 0:\n    with open('v.json', 'w') as out:\n        build(out)\n"
        "v = open('v.json').read()\n" + RUN,
        DDP + "if rank == 0:\n    torch.save(net.state_dict(), 'a.pt')\ndist.barrier()\n"
        "state = torch.load('a.pt', map_location='cpu')\nif rank == 0:\n    os.remove('a.pt')\n" + RUN,
        DDP + "if os.path.exists('/tmp/a.pt'):\n    torch.load('/tmp/a.pt', map_location='cpu')\nif rank == 0:\n"
        "    torch.save(net.state_dict(), '/tmp/a.pt')\n" + TWO,
    ),
    good=(
        DDP + "if rank == 0:\n    with open('v.json', 'w') as out:\n        build(out)\ndist.barrier()\n"
        "v = open('v.json').read()\n" + RUN,
        DDP + "if rank == 0:\n    torch.save(net.state_dict(), 'a.pt')\ndist.barrier()\n"
        "state = torch.load('a.pt', map_location='cpu')\ndist.barrier()\nif rank == 0:\n    os.remove('a.pt')\n" + RUN,
        DDP + "if os.path.exists('a.pt'):\n    torch.load('a.pt', map_location='cpu')\nif rank == 0:\n"
        "    torch.save(net.state_dict(), 'a.pt')\n" + RUN,
    ),
)  # fmt: skip
def files_without_a_barrier(job: LintJob) -> Iterator[LintFinding]:
    """What one rank writes is there for another one only behind a collective that both come to."""
    for each in courses(job):
        if len(each.ranks) < 2:
            continue
        found = _too_early(each)
        if found is not None:
            write, read = found
            yield LintFinding(
                span=each.code.span(read.node),
                summary=f"rank 0 alone writes this file, line {each.code.line_of(write.node)}, and the others read it"
                " without a barrier between",
                happens="A rank that comes first finds no file, an old one, or half of it.",
                fix="Call dist.barrier() on all ranks behind the writing.",
            )
        far = _on_another_disk(each)
        if far is not None:
            yield LintFinding(
                span=each.code.span(far.node),
                summary=f"rank 0 alone writes {far.value}, which is a disk of its own node, and all nodes read it",
                happens="The other nodes find none, or an old one: their ranks go on otherwise than rank 0.",
                fix="Write it where all nodes see it; or read it on rank 0 and broadcast what is in it.",
            )
        removed = _removed(each)
        if removed is not None:
            yield LintFinding(
                span=each.code.span(removed.node),
                summary="one rank removes what the others may still have to read: no barrier stands between",
                happens="A slower rank finds no file.",
                fix="Call dist.barrier() on all ranks before it is removed.",
            )


def _is_path(value: Value) -> bool:
    return value is not None and not (isinstance(value, OpenValue) and value.is_own)


def _too_early(each: Courses) -> tuple[Deed, Deed] | None:
    first = each.ranks[0]
    writes = [
        deed for deed in first.deeds if deed.what in ("save", "written") and _is_path(deed.value) and deed.is_sure
    ]
    places = {id(deed): place for place, deed in enumerate(first.deeds)}
    for other in each.ranks[1:]:
        its_own = {key_of(deed.value) for deed in other.deeds if deed.what in ("save", "written")}
        for read in (deed for deed in other.deeds if deed.what == "read" and deed.is_sure and _is_path(deed.value)):
            of_first = [deed for deed in first.deeds if deed.what == "read" and deed.node is read.node]
            for write in writes:
                if key_of(write.value) != key_of(read.value) or key_of(read.value) in its_own:
                    continue
                is_behind = (
                    places[id(of_first[-1])] > places[id(write)]
                    if of_first
                    else getattr(read.node, "lineno", 0) > getattr(write.node, "lineno", 0)
                )
                if is_behind and read.barriers <= write.barriers:
                    return write, read
    return None


def _on_another_disk(each: Courses) -> Deed | None:
    """What a rank of another node reads from a place that each node has for itself."""
    written = {deed.value for rank, deed in of(each.ranks, "save") if rank.seat.rank == 0 and _is_own_disk(deed.value)}
    written -= {deed.value for rank, deed in of(each.ranks, "save") if rank.seat.node and _is_own_disk(deed.value)}
    reads = (deed for rank, deed in of(each.ranks, "read") if rank.seat.node and _is_own_disk(deed.value))
    return next((deed for deed in reads if deed.value in written), None)


def _is_own_disk(path: Value) -> bool:
    return isinstance(path, str) and OWN_DISKS.match(path) is not None


def _removed(each: Courses) -> Deed | None:
    first = each.ranks[0]
    for gone in (deed for deed in first.deeds if deed.what == "removed" and deed.is_sure):
        before = first.deeds[: first.deeds.index(gone)]
        for other in each.ranks[1:]:
            if any(deed.what == "removed" and deed.node is gone.node for deed in other.deeds):
                continue
            for read in (deed for deed in other.deeds if deed.what == "read" and deed.is_sure):
                same = key_of(read.value) == key_of(gone.value) and read.barriers >= gone.barriers
                if same and any(deed.node is read.node for deed in before):
                    return gone
    return None


@rule(
    "T88",
    title="A model that DistributedDataParallel has wrapped stays as it is",
    severity="warning",
    source="torch/nn/parallel/distributed.py: the reducer's hooks are on the parameters that the module has when it is"
    " wrapped; pytorch#12603, #104336",
    bad=(
        DDP.replace("make()", "torch.nn.Linear(4, 4)") + "net.module.fc = torch.nn.Linear(4, 2).cuda()\n"
        "net(x).sum().backward()\n" + RUN,
        DDP + "for i, x in enumerate(data()):\n    if i == 9:\n        for p in net.parameters():\n"
        "            p.requires_grad = False\n    net(x).sum().backward()\n" + RUN,
        DDP + "for x in data():\n    net.cpu()\n    index(net)\n    net.cuda()\n    net(x).sum().backward()\n" + RUN,
    ),
    good=(
        "#@ file t.py\nimport torch\n" + DDP.partition("\n")[2].replace("make()", "torch.nn.Linear(4, 4)") + RUN,
        DDP + "for x in data():\n    net(x).sum().backward()\nnet.cpu()\n" + RUN,
    ),
)
def model_changed_behind_the_wrap(job: LintJob) -> Iterator[LintFinding]:
    """What comes in afterwards has no hook that averages its gradients; what goes to the CPU and back loses them."""
    for each in courses(job):
        first = each.ranks[0]
        if len(each.ranks) < 2:
            continue
        for place, deed in enumerate(first.deeds):
            if deed.what == "grown" and any(later.what == "backward" for later in first.deeds[place:]):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary="a layer is put into the model after DistributedDataParallel has wrapped it",
                    happens="Its gradients are never averaged, and it starts otherwise on each rank.",
                    fix="Change the model first, and wrap it then.",
                )
                return
            if deed.what == "frozen behind" and "find_unused_parameters" not in each.code.text:
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary="requires_grad of parameters is changed after DistributedDataParallel has wrapped them",
                    happens="It goes on waiting for their gradients: Expected to have finished reduction in the prior"
                    " iteration.",
                    fix="Freeze them before the model is wrapped; or wrap it anew when others are to be trained.",
                )
                return
            if deed.what == "off the GPU" and any(later.what == "backward" for later in first.deeds[place:]):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"{deed.value or 'the wrapped model'} is moved to the CPU behind DistributedDataParallel,"
                    " and trained afterwards",
                    happens="Its hooks are lost: gradients are not averaged any more, without a word.",
                    fix="Copy the weights (state_dict) to the CPU, or wrap the model anew when it is back.",
                )
                return


@rule(
    "T89",
    title="What one rank saves is whole",
    source="torch.distributed.fsdp.fully_shard of torch 2.13: state_dict holds DTensors, of which a rank has its shard",
    leads_to=(),
    bad=(
        JOINED + "from torch.distributed.fsdp import fully_shard\nnet = torch.nn.Linear(4, 4).cuda()\n"
        "fully_shard(net)\nif rank == 0:\n    torch.save(net.state_dict(), 'a.pt')\n" + RUN,
        JOINED + "from torch.distributed.fsdp import fully_shard\nnet = torch.nn.Linear(4, 4).cuda()\n"
        "fully_shard(net)\nif rank == 0:\n    torch.save({'net': net.state_dict()}, 'a.pt')\n" + RUN,
    ),
    good=(
        JOINED + "from torch.distributed.fsdp import fully_shard\nnet = torch.nn.Linear(4, 4).cuda()\n"
        "fully_shard(net)\ntorch.save(net.state_dict(), f'a{rank}.pt')\n" + RUN,
        JOINED + "net = torch.nn.Linear(4, 4).cuda()\nif rank == 0:\n    torch.save(net.state_dict(), 'a.pt')\n" + RUN,
    ),
)  # fmt: skip
def shard_saved_alone(job: LintJob) -> Iterator[LintFinding]:
    """The file then has the first rank's shards, and the other ranks' parts of the weights are lost."""
    for each in courses(job):
        saves = [(rank, deed) for rank, deed in of(each.ranks, "save") if _is_shard(deed.more)]
        ranks = {rank.seat.rank for rank, _ in saves}
        if saves and len(ranks) < len({rank.seat.rank for rank in each.ranks}):
            yield LintFinding(
                span=each.code.span(saves[0][1].node),
                summary=f"rank {min(ranks)} alone saves the state_dict of a model that fully_shard has sharded",
                happens="It holds this rank's shards: the file lacks what the other ranks have.",
                fix="Gather it on all ranks: get_model_state_dict(model, options=StateDictOptions("
                "full_state_dict=True, cpu_offload=True)), and save that on rank 0.",
            )


def _is_shard(value: Value) -> bool:
    if isinstance(value, dict):
        return any(map(_is_shard, value.values()))
    return isinstance(value, Thing) and value.kind == "state of shards"


@rule(
    "T99",
    title="Ranks that send to each other do not all send first",
    source="nccl#479: a send waits for its receive; torch.distributed.send of torch 2.13",
    leads_to=(),
    bad=(
        JOINED + "x = torch.ones(9).cuda()\ny = torch.empty_like(x)\ndist.send(x, dst=(rank + 1) % 4)\n"
        "dist.recv(y, src=(rank - 1) % 4)\n" + RUN,
        JOINED + "x = torch.ones(9).cuda()\ny = torch.empty_like(x)\ndist.recv(y, src=(rank - 1) % 4)\n"
        "dist.send(x, dst=(rank + 1) % 4)\n" + RUN,
        JOINED + "x = torch.ones(9).cuda()\nif rank == 0:\n    dist.recv(x, src=1)\n" + RUN,
    ),
    good=(
        JOINED + "x = torch.ones(9).cuda()\ny = torch.empty_like(x)\nif rank % 2:\n"
        "    dist.send(x, dst=(rank + 1) % 4)\n"
        "    dist.recv(y, src=(rank - 1) % 4)\nelse:\n    dist.recv(y, src=(rank - 1) % 4)\n"
        "    dist.send(x, dst=(rank + 1) % 4)\n" + RUN,
        JOINED + "x = torch.ones(9).cuda()\nif rank < 3:\n    dist.send(x, dst=rank + 1)\n" + RUN,
    ),
)  # fmt: skip
def all_send_first(job: LintJob) -> Iterator[LintFinding]:
    """A send is done when it is received: where every rank begins with one, nobody comes to its receive."""
    for each in courses(job):
        firsts = [next((deed for deed in rank.deeds if deed.what == "peer to peer"), None) for rank in each.ranks]
        yield from _nobody_answers(each)
        kinds = {deed.value for deed in firsts if deed is not None and deed.is_sure}
        if len(firsts) < 2 or None in firsts or len(kinds) != 1 or not kinds <= {"send", "recv"}:
            continue
        if all(type(deed.more) is int for deed in firsts if deed is not None) and firsts[0] is not None:
            kind = next(iter(kinds))
            yield LintFinding(
                span=each.code.span(firsts[0].node),
                summary=f"every rank begins with dist.{kind}, and none with its other half",
                happens="Each waits for the other: nobody comes to the next line.",
                fix="Let ranks of odd numbers do it the other way round, or use dist.batch_isend_irecv.",
            )


def _nobody_answers(each: Courses) -> Iterator[LintFinding]:
    """A receive from a rank that sends it nothing, as far as its course tells."""
    by_rank = {rank.seat.rank: rank for rank in each.ranks}
    for rank in each.ranks:
        for deed in rank.deeds:
            other = by_rank.get(deed.more) if deed.what == "peer to peer" and type(deed.more) is int else None
            if other is None or other is rank or not deed.is_sure or deed.value not in ("recv", "irecv"):
                continue
            theirs = [each for each in other.deeds if each.what == "peer to peer" and each.value in ("send", "isend")]
            if not any(type(each.more) is not int or each.more == rank.seat.rank for each in theirs):
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"rank {rank.seat.rank} receives from rank {deed.more}, which sends it nothing",
                    happens="It waits until the timeout.",
                    fix="Let that rank call dist.send to this one, as often as it is received.",
                )
                return


@rule(
    "T98",
    title="All ranks have made what they use, and wrap the same model",
    source="Python: a name is there when its line has run; torch 2.13, DistributedDataParallel.__init__ verifies that"
    " the parameters are those of the other ranks",
    leads_to=("program-error",),
    bad=(
        JOINED + "if rank == 0:\n    order = [shuffled()]\ndist.broadcast_object_list(order, src=0)\n" + RUN,
        JOINED + "net = torch.nn.Linear(4, 4)\nif rank == 0:\n    net.more = torch.nn.Linear(4, 4)\n"
        "net = torch.nn.parallel.DistributedDataParallel(net.cuda())\n" + RUN,
    ),
    good=(
        JOINED + "order = [None]\nif rank == 0:\n    order = [shuffled()]\n"
        "dist.broadcast_object_list(order, src=0)\n" + RUN,
        JOINED + "net = torch.nn.Linear(4, 4)\nnet.more = torch.nn.Linear(4, 4)\n"
        "net = torch.nn.parallel.DistributedDataParallel(net.cuda())\n" + RUN,
        JOINED + "if rank == 0:\n    log = open_log()\nif rank == 0:\n    log.write('a')\n" + RUN,
    ),
)  # fmt: skip
def other_ranks_have_not_made_it(job: LintJob) -> Iterator[LintFinding]:
    """What stands below a condition on the rank is not there on the others."""
    for each in courses(job):
        for follower in each.ranks[1:]:
            gone = next((deed for deed in follower.deeds if deed.what == "unbound" and deed.is_sure
                         and _is_made_on(each, follower, deed)), None)  # fmt: skip
            if gone is not None:
                yield LintFinding(
                    span=each.code.span(gone.node),
                    summary=f"{gone.value} is used on all ranks, and rank {follower.seat.rank} has not made it",
                    happens="NameError (UnboundLocalError) there, and the others wait for it.",
                    fix=f"Make {gone.value} on all ranks, for instance {gone.value} = [None] before the condition.",
                )
                break
        drawn = next((deed for deed in each.ranks[0].deeds if deed.what == "wrapped" and deed.value is True), None)
        if drawn is not None and len(each.ranks) > 1:
            yield LintFinding(
                span=each.code.span(drawn.node),
                summary="the model is built by what each rank draws for itself (a trial of optuna, random sizes)",
                happens="The ranks' models differ: DistributedDataParallel refuses them, or waits.",
                fix="Draw on rank 0 and broadcast it (optuna: TorchDistributedTrial), or seed all ranks alike.",
            )
        wraps = [deed.node for deed in each.ranks[0].deeds if deed.what == "wrapped"]
        layers = [{id(deed.node): deed for deed in rank.deeds if deed.what == "layer" and deed.is_sure}
                  for rank in each.ranks]  # fmt: skip
        more = next((deed for other in layers[1:] for place, deed in (layers[0] | other).items()
                     if (place in layers[0]) is not (place in other)), None)  # fmt: skip
        if wraps and more is not None:
            yield LintFinding(
                span=each.code.span(more.node),
                summary="some ranks alone put this layer into the model, which is wrapped afterwards",
                happens="The ranks' parameters differ: DistributedDataParallel refuses them, or averages other ones.",
                fix="Give the model the same layers on all ranks.",
            )


def _is_made_on(each: Courses, follower: RankCourse, gone: Deed) -> bool:
    """The first rank comes by the same place and has the name, which the same function assigns."""
    first = each.ranks[0]
    if any(deed.what == "unbound" and deed.node is gone.node for deed in first.deeds):
        return False
    scope = each.code.scope_of(gone.node)
    stores = [
        node
        for node in each.code.nodes
        if isinstance(node, ast.Name) and node.id == gone.value and isinstance(node.ctx, ast.Store)
    ]
    call = each.code.parents.get(gone.node)
    alike = any(event.node is call for event in collectives(first.events))
    return alike and bool(stores) and all(each.code.scope_of(node) is scope for node in stores)
