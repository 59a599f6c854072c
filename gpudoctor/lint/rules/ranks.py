"""Rules of node ranks and node counts: R01, R02, R06, R08, R11, R12."""

import re
from collections.abc import Iterator

from gpudoctor.lint import allocation, lightning, look
from gpudoctor.lint.courses.seats import HOOKS
from gpudoctor.lint.edits import endpoint_instead, insert_options, spell
from gpudoctor.lint.look import TORCHRUN, LintWorld, Value, label, labels, number, value
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule

_WAIT = "after 600 s the rendezvous ends with a time-out (torch 1.12 waits far longer)"
_STATIC = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)
_BOTH = "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.format(1)
_ACCELERATE = (
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --machine_rank {} --main_process_ip 10.20.0.11"
    " --main_process_port 61234 train.py\n"
)
_SLURM = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=16\n"
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\nexport MASTER_PORT=61234\n'
    "srun --cpus-per-task=16 --kill-on-bad-exit=1 bash -c 'torchrun --nnodes={} --node-rank={} --nproc-per-node=4"
    " --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py'\n"
)


def _ranked(job: LintJob) -> Iterator[tuple[LintWorld, tuple[tuple[LintLaunch, Value], ...]]]:
    """Worlds in which the node rank counts (c10d hands ranks out itself), with the ranks that are given."""
    for world in look.worlds(job):
        if any(not look.is_static(launch) or look.standalone(launch) for launch in world.launches):
            continue
        given = [(launch, value(launch, "node-rank")) for launch in world.launches]
        yield world, tuple((launch, told_rank) for launch, told_rank in given if told_rank is not None)


@rule(
    "R01",
    title="Every node has a node rank of its own",
    source="measured with torch 2.13 and 1.12; many threads",
    leads_to=("launcher-world-mismatch", "master-port-in-use"),
    bad=(
        "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.format(0),
        "#@ every node\n" + _STATIC.format(0),
        "#@ node 0\n" + _ACCELERATE.format(0) + "#@ node 1\n" + _ACCELERATE.format(0),
        _SLURM.format(2, 0),
        _SLURM.format(2, "$NODE_RANK"),
    ),
    good=(_BOTH, _STATIC.format(0), _SLURM.format(2, "$SLURM_NODEID")),
)
def same_node_rank_twice(job: LintJob) -> Iterator[LintFinding]:
    """Two nodes with the same node rank both want the same global ranks, and one rank is missing for ever. With two
    heads each opens its own store; with none, all wait. It comes from one line pasted on every node unchanged."""
    for world, ranks in _ranked(job):
        if look.is_multi(job, world) is False:
            continue
        if not world.line_per_node:
            yield from _constant(job, world, ranks)
            continue
        first: dict[int, LintLaunch] = {}
        for launch, told_rank in ranks:
            rank = number(told_rank)
            if rank is None:
                continue
            other = first.setdefault(rank, launch)
            if other is launch or look.node_of(job, other) == look.node_of(job, launch):
                continue
            own = look.section_node(job, launch)
            edits = (Edit(told_rank.span, str(own)),) if own is not None and own != rank else ()
            yield LintFinding(
                span=told_rank.span,
                summary=f"{label(job, other)} and {label(job, launch)} both have {told_rank.written} {rank};"
                " every node needs its own",
                happens=f"Both start the same global ranks: EADDRINUSE on one of them, or the others wait for the"
                f" missing ranks and {_WAIT}.",
                fix=f"Give every node its own rank from 0 to {len(world.launches) - 1}"
                + (f": {told_rank.written} {own} on {label(job, launch)}." if own is not None else "."),
                edits=edits,
            )


def _constant(job: LintJob, world: LintWorld, ranks: tuple[tuple[LintLaunch, Value], ...]) -> Iterator[LintFinding]:
    for launch, told_rank in ranks:
        rank = number(told_rank)
        multi = look.is_multi(job, world) or (world.nodes or 0) > 1
        if rank is None and multi and (same := _of_nobody(job, launch, told_rank)):
            yield LintFinding(
                span=told_rank.span,
                summary=f"{told_rank.written} is {same} in each task, and nothing sets it there",
                happens="It is empty, or the submitting shell's, on every node: a usage error, or one rank for all.",
                fix=f"Write {_own_number(launch)}, expanded in the task (inside bash -c '...').",
            )
        if rank is None or not multi:
            continue
        if (loop := launch.invocation.in_loop) and not launch.invocation.conditional:
            host = look.host_of(launch) or ""
            of_turn = loop == "while" and host.startswith("$")
            if loop in ("xargs", "parallel") and not told_rank.word.expansions:
                host = f"${loop}" if any(look.fans_out(outer) for outer in launch.invocation.within) else ""
            of_turn = of_turn or re.search(rf"\$\{{?(?:\w+\[\$?)?{re.escape(loop)}\b", host) is not None
            if of_turn and not told_rank.word.expansions:
                yield LintFinding(
                    span=told_rank.span,
                    summary=f"{told_rank.written} is {rank} on each host of the loop over {loop}; each needs its own",
                    happens=f"Every node starts the global ranks of node {rank}: EADDRINUSE, or all wait and {_WAIT}.",
                    fix="Count the turns of the loop, and hand the number over as the node rank.",
                )
            continue
        if look.says_every_node(job, launch):
            in_task = look.in_a_task_shell(launch) and not told_rank.word.expansions
            yield LintFinding(
                span=told_rank.span,
                summary=f"{told_rank.written} is {rank} on every node that runs this line; each needs its own",
                happens=f"Every node starts the global ranks of node {rank}: EADDRINUSE, or all wait and {_WAIT}.",
                fix=f"Use {told_rank.written.split('=')[0]} $SLURM_NODEID, expanded in the task (inside bash -c '...')."
                if look.sruns(launch)
                else "Let each node fill in its own rank, from 0 upwards.",
                edits=(Edit(told_rank.span, "$SLURM_NODEID"),) if in_task else (),
            )
        elif look.node_of(job, launch) is None and look.section_kind(job, launch) == "every":
            yield LintFinding(
                span=told_rank.span,
                severity="info",
                summary=f"This line has {told_rank.written} {rank}: it is right on one node only",
                happens="If every node runs it unchanged, all take the same ranks: EADDRINUSE, or the start waits.",
                fix="Use this line on that node, and the other ranks on the other nodes.",
            )


def _of_nobody(job: LintJob, launch: LintLaunch, told: Value) -> str:
    """The variable, where srun, mpirun or pdsh starts the line and nothing of the text sets it: srun hands one
    environment to all tasks, Open MPI and pdsh hand on none of it."""
    fanned = (
        bool(look.sruns(launch)) or allocation.under_mpi(launch) or any(map(look.fans_out, launch.invocation.within))
    )
    named = [each for each in told.word.expansions if each.name]
    if not fanned or len(named) != 1 or look.behind_unknown(launch) or look.from_platform(job, launch):
        return ""
    only = named[0]
    unset = only.is_set is False and only.default is None and only.name not in job.facts.variables
    return f"${only.name}" if unset and not HOOKS.search(job.text) else ""


def _own_number(launch: LintLaunch) -> str:
    """What holds the node's number in a task."""
    if look.sruns(launch):
        return "$SLURM_NODEID"
    return "$OMPI_COMM_WORLD_RANK (Open MPI, one task a node)" if allocation.under_mpi(launch) else "%n, pdsh's number"


def _of_lightning(job: LintJob) -> Iterator[LintFinding]:
    """NODE_RANK in the environment is Lightning's, also where something else was meant (LightningEnvironment)."""
    for launch in job.launches if lightning.calls(job) and not job.node_sections else ():
        setting = launch.invocation.settings.get("NODE_RANK")
        rank = setting.word.text if setting is not None and setting.exported else None
        nodes = lightning.num_nodes(job, launch)
        many = nodes[0] if nodes is not None else 1
        told = lightning.argument(job, launch, "num_nodes", "nodes")
        if launch.launcher != "python" or launch.around or (told is not None and nodes is None):
            continue
        alone = lightning.strategy(job, launch) is None and lightning.devices(job, launch) in (None, 1)
        if setting is None or rank is None or not re.fullmatch(r"\d{1,4}", rank) or int(rank) < many or alone:
            continue
        if any(call.hides for call in lightning.calls(job)):
            continue
        yield LintFinding(
            span=setting.word.span,
            summary=f"NODE_RANK={rank} is in Lightning's environment, and its Trainer has"
            f" {'one node' if many == 1 else f'{many} nodes'}",
            happens=f"Its ranks count from node {rank} on, and wait for a rank 0 that never comes.",
            fix="Take NODE_RANK away, or give the variable another name; of several nodes tell num_nodes too.",
        )


@rule(
    "R02",
    title="Node ranks go from 0 to nnodes - 1",
    source="measured with torch 2.13; many threads",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "#@ node 0\n" + _STATIC.format(1) + "#@ node 1\n" + _STATIC.format(2),
        "#@ node 1\n" + _STATIC.format(2),
        "export NODE_RANK=1\npython t.py\n#@ file t.py\nimport lightning as L\nL.Trainer(devices=2, strategy='ddp')\n",
        "#@ node 0\n" + _ACCELERATE.format(1) + "#@ node 1\n" + _ACCELERATE.format(2),
    ),
    good=(_BOTH, "#@ node 1\n" + _STATIC.format(1)),
)
def node_rank_out_of_range(job: LintJob) -> Iterator[LintFinding]:
    """Node ranks count from 0. Node rank 0 opens the store that all others connect to: where no node has it, or a rank
    is beyond the number of nodes, everybody waits."""
    yield from _of_lightning(job)
    for world, ranks in _ranked(job):
        known = [(launch, told_rank, rank) for launch, told_rank in ranks if (rank := number(told_rank)) is not None]
        most = max((nodes[1] for launch in world.launches if (nodes := look.nnodes(launch))), default=0)
        complete = world.line_per_node and len(known) == len(world.launches)
        from_one = complete and sorted(rank for _, _, rank in known) == list(range(1, len(known) + 1))
        for launch, told_rank, rank in known:
            outside = rank < 0 or (most > 1 and rank >= most)
            if not outside and not (from_one and rank == min(number for _, _, number in known)):
                continue
            own = look.section_node(job, launch)
            edits: tuple[Edit, ...] = ()
            if from_one:
                edits = tuple(Edit(told_rank.span, str(number - 1)) for _, told_rank, number in known)
            elif own is not None and own < most:
                edits = (Edit(told_rank.span, str(own)),)
            last = (most or len(known)) - 1
            yield LintFinding(
                span=told_rank.span,
                summary=f"{told_rank.written} {rank} on {label(job, launch)}; node ranks go from 0 to {last}"
                if outside
                else f"No node has node rank 0; the lowest is {rank} on {label(job, launch)}",
                happens=f"The store is opened by node rank 0 and waits for ranks 0 to {last}: all wait, and {_WAIT}.",
                fix=f"Count node ranks from 0: 0 on the head, {last} on the last node.",
                edits=edits,
            )


def _without_rank(job: LintJob) -> Iterator[tuple[LintWorld, LintLaunch]]:
    """Launches of a static start on several nodes that get no node rank from anywhere."""
    for world in look.worlds(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        for launch in world.launches:
            if launch.launcher not in (*TORCHRUN, "fabric") or not look.is_static(launch) or look.standalone(launch):
                continue
            nodes = look.nnodes(launch)
            if value(launch, "nnodes") is None or (nodes is not None and nodes[1] < 2):
                continue  # R03 has that
            if value(launch, "node-rank") is None and not look.may_hide_options(launch):
                yield world, launch


def _add_rank(job: LintJob, launch: LintLaunch) -> tuple[str, tuple[Edit, ...]]:
    option = spell(launch, "node-rank")
    own = look.node_of(job, launch)
    if isinstance(own, int):
        return f"Add {option}={own} on {label(job, launch)}.", insert_options(launch, f"{option}={own}")
    if look.sruns(launch):
        if look.in_a_task_shell(launch):
            return f"Add {option}=$SLURM_NODEID.", insert_options(launch, f"{option}=$SLURM_NODEID")
        instead = endpoint_instead(job.text, launch)
        if instead and launch.launcher in TORCHRUN and "rdzv-backend" not in launch.options:
            more = f"{spell(launch, 'rdzv-backend')}=c10d {spell(launch, 'rdzv-id')}=$SLURM_JOB_ID"
            fix = f"Use c10d, which hands the ranks out: {more} {spell(launch, 'rdzv-endpoint')}=HEAD:PORT; or"
            return f"{fix} {option}=$SLURM_NODEID inside bash -c '...'.", (*insert_options(launch, more), *instead)
        return f"Start it with srun ... bash -c 'torchrun {option}=$SLURM_NODEID ...'.", ()
    return f"Add {option}=0 on the head, {option}=1 on the next node, and so on.", ()


@rule(
    "R06",
    title="A static start on several nodes tells each node its rank",
    source="measured with torch 2.13",
    leads_to=("launcher-world-mismatch", "master-port-in-use"),
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --master-addr=10.20.0.11 --master-port=61234 train.py\n",
        "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.replace("--node-rank={} ", ""),
        _SLURM.format(2, 0).replace("--node-rank=0 ", ""),
    ),
    good=(
        _BOTH,
        "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=head01:29400 train.py\n",
        "torchrun --rdzv-conf=is_host=$(((SLURM_NODEID)) && echo 0 || echo 1) --nnodes=2 --nproc-per-node=4"
        " --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=head01:29400 train.py\n",
        "export PET_NODE_RANK=1 PET_MASTER_ADDR=10.20.0.11\ntorchrun --nnodes=2 --nproc-per-node=4 train.py\n",
    ),
)
def node_rank_missing(job: LintJob) -> Iterator[LintFinding]:
    """Without a node rank every node is node 0: the static rendezvous does not hand ranks out. Each node then opens a
    store of its own, or fails to, and waits for the others."""
    for world, launch in _without_rank(job):
        if look.endpoint(launch) is not None:
            continue  # R08
        if (
            world.line_per_node
            and look.node_of(job, launch) == 0
            and any(value(lint_launch, "node-rank") is not None for lint_launch in world.launches)
        ):
            continue  # the head may rely on the default of 0
        fix, edits = _add_rank(job, launch)
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"{launch.launcher} starts {look.count_text(launch)} nodes without {spell(launch, 'node-rank')};"
            " its default is 0 on each of them",
            happens=f"Every node takes itself for node 0: EADDRINUSE, or each waits for the others and {_WAIT}.",
            fix=fix,
            edits=edits,
        )


@rule(
    "R08",
    title="A start with an endpoint and no node ranks names the c10d backend",
    source="measured with torch 2.13",
    leads_to=("launcher-world-mismatch", "master-port-in-use"),
    bad=(
        "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_id=7 --rdzv_endpoint=head01:29400 train.py\n",
        "#@ every node\ntorchrun --nnodes 4 --nproc_per_node 8 --rdzv_endpoint=$HEAD:29400 train.py\n",
    ),
    good=(
        "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=head01:29400 train.py\n",
        "#@ node 1\ntorchrun --nnodes=2 --node_rank=1 --nproc_per_node=4 --rdzv_endpoint=head01:61234 train.py\n",
    ),
)
def endpoint_without_backend(job: LintJob) -> Iterator[LintFinding]:
    """--rdzv-endpoint and --rdzv-id alone do not choose c10d: the backend stays "static", which needs a node rank, and
    that is 0 on every node when it is not given."""
    for _, launch in _without_rank(job):
        whole = look.endpoint(launch)
        if whole is None:
            continue
        backend = launch.option("rdzv-backend")
        if backend is not None:
            fix, edits = _add_rank(job, launch)
        else:
            option = spell(launch, "rdzv-backend")
            fix, edits = f"Add {option}=c10d.", insert_options(launch, f"{option}=c10d")
        yield LintFinding(
            span=whole.span,
            summary=f"{whole.written} is given, but no backend: it is static, and {spell(launch, 'node-rank')} is 0"
            f" on each of {look.count_text(launch)} nodes",
            happens=f"Every node takes itself for node 0: EADDRINUSE, or each waits for the others and {_WAIT}.",
            fix=fix,
            edits=edits,
        )


@rule(
    "R11",
    title="--nnodes is the number of nodes that run the line, and the same on all of them",
    needs="facts",
    source="measured with torch 2.13",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.format(1).replace("=2", "=3"),
        _SLURM.format(4, "$SLURM_NODEID"),
        Example("#@ every node\n" + _STATIC.format("$NODE_RANK"), "nodes=4"),
    ),
    good=(_BOTH, _SLURM.format("$SLURM_NNODES", "$SLURM_NODEID"), _SLURM.format(2, "$SLURM_NODEID")),
)
def wrong_number_of_nodes(job: LintJob) -> Iterator[LintFinding]:
    """The rendezvous waits until as many nodes are there as --nnodes says. With more it turns the rest away, with less
    it waits; where the nodes do not agree, both happen."""
    for world in look.worlds(job):
        counts = [(launch, count, known) for launch in world.launches
                if (count := value(launch, "nnodes")) and (known := look.nnodes(launch))]  # fmt: skip
        if not counts or look.from_platform(job, world.first):
            continue
        launch, count, known = counts[0]
        different = next((other for other in counts if other[2] != known), None)
        if different is not None:
            wanted = len(world.launches) if world.nodes is None else world.nodes
            yield LintFinding(
                span=different[1].span,
                summary=f"{different[1].written} is {different[1].text} on {label(job, different[0])} and"
                f" {count.text} on {label(job, launch)}",
                happens="One side waits for nodes that never come, the other turns nodes away; both end with a time-out"
                " after 600 s.",
                fix=f"Write {count.written} {wanted} on all of them.",
                edits=tuple(Edit(each.span, str(wanted)) for _, each, number in counts if number != (wanted, wanted)),
            )
            continue
        running = _running(job, world)
        if running is None or known[0] <= running <= known[1]:
            continue
        few = running < known[0]
        yield LintFinding(
            span=count.span,
            summary=f"{count.written} is {count.text}, but {running} {'node' if running == 1 else 'nodes'} will run it",
            happens=f"The rendezvous waits for {known[0] - running} more; {_WAIT}."
            if few
            else "Every node trains alone, without a message."
            if known[1] == 1
            else f"{running - known[1]} of the nodes are turned away.",
            fix=f"Write {count.written} {running}, or start it on {known[1]} {'node' if known[1] == 1 else 'nodes'}.",
            edits=tuple(Edit(each.span, str(running)) for _, each, _ in counts),
        )


def _running(job: LintJob, world: LintWorld) -> int | None:
    """How many nodes run the lines, where that is certain enough to contradict --nnodes."""
    launch = world.first
    given = job.facts.nodes if "nodes" in job.facts.given and job.facts.nodes else None
    if any(launch.invocation.conditional and launch.invocation.node_guard is None for launch in world.launches):
        told = [look.nnodes(each) for each in job.launches[: look.SIBLINGS]]
        if given is None or not all(count is not None and count[0] > given for count in told):
            return None  # the branch may be the one that is not taken
    if any(launch.invocation.in_loop for launch in world.launches):
        return None
    if world.line_per_node:
        lines = len(world.launches)
        if look.on_one_machine(job, world):
            return lines
        nodes = look.nnodes(launch)
        return None if given is not None and nodes is not None and nodes[0] <= given <= nodes[1] else given or lines
    if look.traits(launch).bare or launch.launcher == "deepspeed":
        return None
    if look.sruns(launch):
        return look.srun_nodes(job, launch) if look.one_task_per_node(job, launch) else None
    if job.is_batch or look.section_kind(job, launch) == "job" or look.host_of(launch) is not None:
        return None
    return given


@rule(
    "R12",
    title="Every node starts as many processes",
    severity="info",
    source="measured with torch 2.13: the static rendezvous accepts it",
    bad=(
        "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.format(1).replace("node=4", "node=2"),
        "#@ node 0\n" + _STATIC.format(0).replace("node=4", "node=8") + "#@ node 1\n" + _STATIC.format(1),
    ),
    good=(_BOTH, _STATIC.format(0)),
)
def processes_per_node_differ(job: LintJob) -> Iterator[LintFinding]:
    """torchrun accepts nodes with different numbers of processes. Scripts that compute the world size or the batch
    size as nodes x processes of this node are then wrong, each on its node in another way."""
    for world in look.worlds(job):
        launches = [launch for launch in world.launches if launch.launcher in TORCHRUN]
        values = [(launch, value(launch, "nproc-per-node")) for launch in launches]
        counts = [(launch, told_rank) for launch, told_rank in values if told_rank is not None and number(told_rank)]
        for launch, count in counts[1:]:
            first_launch, first = counts[0]
            if number(count) != number(first):
                yield LintFinding(
                    span=count.span,
                    summary=f"{label(job, first_launch)} starts {number(first)} processes,"
                    f" {label(job, launch)} starts {number(count)}",
                    happens="The start works; a script that takes nodes x local processes for the world size computes"
                    f" wrong batch sizes or learning rates on {labels(job, [first_launch, launch])}.",
                    fix="Start as many on each node, or let the script use WORLD_SIZE.",
                )
                break
