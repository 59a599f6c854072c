"""Rules of how the nodes find each other, besides address and port: R03, R04, R05, R07, R09, R10, R13."""

from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import endpoint_instead, insert_options, remove, spell
from gpudoctor.lint.look import TORCHRUN, LintWorld, label, number, value
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule

_C10D = (
    "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id={} --rdzv-backend=c10d --rdzv-endpoint=head01:29400 train.py\n"
)
_STATIC = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)
_BOTH = "#@ node 0\n" + _STATIC.format(0) + "#@ node 1\n" + _STATIC.format(1)
_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_BATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
PER_NODE = lazy_re(r"\bRANDOM\b|\bSRANDOM\b|\$\$|\bBASHPID\b|\bdate\b|\buuidgen\b|/uuid\b|\bmktemp\b|\bshuf\b|EPOCH")
"""What gives another value each time that a shell evaluates it."""


def _torchruns(job: LintJob) -> Iterator[tuple[LintWorld, LintLaunch]]:
    for world in look.worlds(job):
        if look.from_platform(job, world.first):
            continue
        for launch in world.launches:
            if launch.launcher in TORCHRUN and not look.may_hide_options(launch):
                yield world, launch


def _maybe_not_run(launch: LintLaunch) -> bool:
    return launch.invocation.conditional and launch.invocation.node_guard is None


def _several(job: LintJob, world: LintWorld, launch: LintLaunch, other_starts: bool) -> str:
    """Why a start without --nnodes is meant for several nodes; empty when nothing says so."""
    if job.facts.nodes == 1 and not world.line_per_node:
        return ""
    if _maybe_not_run(launch) or (other_starts and value(launch, "node-rank") is None):
        return ""
    if (world.nodes or 0) > 1:
        return f"{world.nodes} nodes run it" if look.one_task_per_node(job, launch) or not look.sruns(launch) else ""
    rank = value(launch, "node-rank")
    address = look.master(launch)
    remote = address is not None and address.sure is not None and not look.is_loopback(address.sure)
    if rank is None:
        return ""
    if (number(rank) or 0) > 0:
        return f"{rank.written} is {rank.text}"
    if remote and number(rank) == 0 and address is not None:
        return f"{rank.written} and {address.written} are given"
    return ""


@rule(
    "R03",
    title="A start on several nodes names their number",
    needs="facts",
    source="measured with torch 2.13 and 2.11",
    bad=(
        "#@ node 0\n"
        + _STATIC.format(0).replace(" --nnodes=2", "")
        + "#@ node 1\n"
        + _STATIC.format(1).replace(" --nnodes=2", ""),
        "torchrun --nproc_per_node=4 --node_rank=1 --master_addr=10.20.0.11 --master_port=61234 train.py\n",
        Example("torchrun --nproc-per-node=8 train.py\n", "nodes=4"),
        _BATCH + "srun torchrun --nproc-per-node=4 train.py\n",
    ),
    good=(
        _BOTH,
        _ONE,
        "torchrun --nproc-per-node=4 --node-rank=0 --master-addr=localhost --master-port=29501 train.py\n",
        _BATCH.replace("nodes=2", "nodes=1") + "srun torchrun --nproc-per-node=4 train.py\n",
        _BATCH + "srun oumi distributed torchrun -m oumi train -c a.yaml\n",
    ),
)
def nnodes_missing(job: LintJob) -> Iterator[LintFinding]:
    """--nnodes defaults to 1, whatever --node-rank and --master-addr say. From torch 2.12 on each node then trains
    alone on all of the data and ends with status 0; nobody is told."""
    other_starts = look.has_multi_node_start(job)
    for world, launch in _torchruns(job):
        if value(launch, "nnodes") is not None or look.standalone(launch):
            continue
        why = _several(job, world, launch, other_starts)
        if not why:
            continue
        option = spell(launch, "nnodes")
        wanted = str(world.nodes) if (world.nodes or 0) > 1 else ""
        more = [f"{option}={wanted}"]
        complete = look.master(launch) is not None and (
            look.is_dynamic(launch) or value(launch, "node-rank") is not None
        )
        slurm = (
            not complete and bool(look.sruns(launch)) and not look.in_a_task_shell(launch) and look.is_static(launch)
        )
        slurm = slurm and look.master(launch) is None and value(launch, "master-port") is None and job.is_batch
        if slurm:
            head = 'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1'
            more.append(f"{spell(launch, 'rdzv-backend')}=c10d {spell(launch, 'rdzv-id')}=$SLURM_JOB_ID")
            more.append(f"{spell(launch, 'rdzv-endpoint')}=$({head}):29400")
        elif not complete:
            more += [
                f"{spell(launch, name)}=..."
                for name in ("node-rank", "master-addr", "master-port")
                if value(launch, name) is None
            ]
        rank = number(value(launch, "node-rank")) or 0
        torch = job.facts.version("torch")
        if rank > 0 and torch is not None and torch < (2, 12):
            happens = "torchrun ends with an IndexError, for node 1 of 1 node does not exist."
        elif value(launch, "master-port") is not None:
            happens = "Each node takes itself for the only one: separate trainings, or a crash with a reset connection."
        else:
            happens = "Each node trains alone, with a world of its own, without a message and with exit status 0."
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"{option} is missing, and its default is 1; {why}",
            happens=happens,
            fix=f"Add {' '.join(more)}." if wanted else f"Add {option}= with the number of nodes.",
            edits=insert_options(launch, *more) if wanted and (complete or slurm) else (),
        )


@rule(
    "R04",
    title="--standalone is for one node",
    needs="facts",
    source="measured with torch 2.13",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "torchrun --standalone --nnodes=2 --nproc-per-node=4 train.py\n",
        Example("#@ every node\n" + _ONE, "nodes=2"),
        "#@ node 0\n" + _ONE + "#@ node 1\n" + _ONE,
    ),
    good=(_ONE, "torchrun --standalone --nnodes=1 --nproc-per-node=gpu train.py\n", _BOTH),
)
def standalone_on_several_nodes(job: LintJob) -> Iterator[LintFinding]:
    """--standalone wins over every other rendezvous option: each node opens a rendezvous on its own localhost. With
    --nnodes above 1 that waits for nodes that cannot come; without it every node trains alone."""
    other_starts = look.has_multi_node_start(job)
    for world, launch in _torchruns(job):
        if not look.standalone(launch):
            continue
        nodes = look.nnodes(launch)
        waits = nodes is not None and nodes[0] > 1
        alone = (world.nodes or 0) > 1 and job.facts.nodes != 1 and not _maybe_not_run(launch)
        if other_starts or (look.sruns(launch) and not look.one_task_per_node(job, launch)):
            alone = False
        if not waits and not (alone and value(launch, "nnodes") is None):
            continue
        standalone = launch.option("standalone")
        assert standalone is not None
        count = nodes[1] if nodes and waits else world.nodes
        parts = ["" if value(launch, "nnodes") else f"{spell(launch, 'nnodes')}={count}"]
        if value(launch, "node-rank") is None:
            parts.append(f"{spell(launch, 'node-rank')}=0 (1, 2, ... on the others)")
        if look.master(launch) is None:
            parts.append(f"{spell(launch, 'master-addr')}= with the head's address")
            parts.append(f"{spell(launch, 'master-port')}=61234")
        yield LintFinding(
            span=standalone.span,
            summary=f"{standalone.written} with {count} nodes",
            happens="RendezvousTimeoutError after 600 s: each node waits on its own localhost for the others."
            if waits
            else "Each node trains alone, with a world of its own, without a message and with exit status 0.",
            fix=f"Remove {standalone.written}"
            + (f" and write {', '.join(part for part in parts if part)}." if any(parts) else "."),
            edits=(remove(job.text, standalone.span),) if not any(parts) else (),
        )


@rule(
    "R05",
    title="A static start on several nodes names the head's address",
    source="measured with torch 2.13; many threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "#@ node 0\ntorchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 train.py\n"
        "#@ node 1\ntorchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 train.py\n",
        "python -m torch.distributed.launch --nnodes=2 --node_rank=1 --nproc_per_node=4 --master_port=29501 train.py\n",
        "#@ node 1\nMASTER_ADDR=10.20.0.11 torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 train.py\n",
    ),
    good=(_BOTH, _C10D.format(7), "export PET_MASTER_ADDR=10.20.0.11\n#@ node 1\n" + _STATIC.format(1)),
)
def master_address_missing(job: LintJob) -> Iterator[LintFinding]:
    """--master-addr defaults to 127.0.0.1: each node then looks for the head on itself. torchrun does not read
    MASTER_ADDR from the environment (only PET_MASTER_ADDR)."""
    for world, launch in _torchruns(job):
        nodes = look.nnodes(launch)
        if not look.is_static(launch) or look.standalone(launch) or value(launch, "nnodes") is None:
            continue
        if not look.is_multi(job, world) or (nodes is not None and nodes[1] < 2):
            continue
        if look.master(launch) is not None:
            continue
        others = [look.master(lint_launch) for lint_launch in world.launches if lint_launch is not launch]
        if look.node_of(job, launch) == 0 and any(others):
            continue  # the head may be its own localhost; the others name it
        option = spell(launch, "master-addr")
        address = next(
            (other.sure for other in others if other and other.sure and not look.is_loopback(other.sure)), None
        )
        ignored = launch.invocation.settings.get("MASTER_ADDR")
        if address is None and ignored is not None and ignored.word.text and not look.is_loopback(ignored.word.text):
            address = ignored.word.text
        edits: tuple[Edit, ...] = ()
        if address is not None:
            edits = insert_options(launch, f"{option}={address}")
        elif ignored is not None and ignored.exported and ignored.how == "export":
            edits = insert_options(launch, f'{option}="$MASTER_ADDR"')
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"{look.count_text(launch)} nodes and no {option}; its default is 127.0.0.1"
            + (", and torchrun does not read MASTER_ADDR" if ignored is not None else ""),
            happens="Every node looks for the head on itself: '1/2 clients joined', and after 600 s a time-out.",
            fix=f"Add {option}={address or ''}".rstrip("=")
            + (" on every node." if address else " with the head's address."),
            edits=edits,
        )


@rule(
    "R07",
    title="c10d gets its address from --rdzv-endpoint",
    source="measured with torch 2.13; many threads",
    leads_to=("master-addr-loopback",),
    bad=(
        "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --master-addr=10.20.0.11 --master-port=6123 t.py\n",
        "#@ every node\ntorchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend c10d --rdzv_id 7 train.py\n",
    ),
    good=(_C10D.format(7), _BOTH, "torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d train.py\n"),
)
def c10d_without_endpoint(job: LintJob) -> Iterator[LintFinding]:
    """The c10d backend takes no notice of --master-addr and --master-port; without --rdzv-endpoint it uses localhost,
    and each node waits for the others on itself."""
    for world, launch in _torchruns(job):
        if not look.is_dynamic(launch) or look.standalone(launch) or not look.is_multi(job, world):
            continue
        if value(launch, "nnodes") is None or look.endpoint(launch) is not None:
            continue
        option = spell(launch, "rdzv-endpoint")
        address = value(launch, "master-addr")
        port = value(launch, "master-port")
        where = f"{address.shown}:{port.shown if port is not None else 29400}" if address is not None else "HOST:PORT"
        edits = endpoint_instead(job.text, launch)
        yield LintFinding(
            span=address.span if address is not None else look.head_span(launch),
            summary=f"The c10d backend has no {option}"
            + (f" and takes no notice of {address.written}" if address is not None else ""),
            happens="Every node opens the rendezvous on its own localhost and waits: a time-out after 600 s.",
            fix=f"Write {option}={where}, with the head's own host name, or leave the backend away and give every node"
            " its rank.",
            edits=edits,
        )


@rule(
    "R09",
    title="The rendezvous id is the same on every node",
    source="measured with torch 2.13; pytorch/examples pull request 1254",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "#@ node 0\n" + _C10D.format(1) + "#@ node 1\n" + _C10D.format(2),
        "#@ every node\n" + _C10D.format("$RANDOM"),
        _C10D.format("job-$(date +%s)"),
        _BATCH + "srun bash -c '" + _C10D.format("$RANDOM").strip() + "'\n",
    ),
    good=(
        "#@ node 0\n" + _C10D.format(1) + "#@ node 1\n" + _C10D.format(1),
        _BATCH + "srun " + _C10D.format("$RANDOM"),
        _BATCH + "srun " + _C10D.format("$SLURM_JOB_ID"),
        "#@ node 0\n" + _STATIC.format("0 --rdzv-id=1") + "#@ node 1\n" + _STATIC.format("1 --rdzv-id=2"),
    ),
)
def rendezvous_id_differs(job: LintJob) -> Iterator[LintFinding]:
    """With c10d and etcd only agents with the same --rdzv-id meet. A random number or the time, evaluated on each node,
    gives every node an id of its own. In a batch script it is evaluated once, before srun: that is right."""
    for world in look.worlds(job):
        if not look.is_multi(job, world) or look.from_platform(job, world.first):
            continue
        given = [
            (launch, told_id)
            for launch in world.launches
            if look.is_dynamic(launch) and (told_id := value(launch, "rdzv-id"))
        ]
        for launch, told_id in given:
            parts = [origin for origin in look.origins(told_id.word, launch.invocation) if origin.where != "batch"]
            random = next((part for part in parts if part.value is None and PER_NODE.search(part.raw)), None)
            if random is None or (look.host_of(launch) is not None and random.where == "node"):
                continue
            fixed = "$SLURM_JOB_ID" if look.sruns(launch) else "train1"
            yield LintFinding(
                span=told_id.span,
                summary=f"{told_id.written} has {random.raw}, which each node evaluates for itself",
                happens="Every node has another rendezvous id: nobody meets anybody, and after 600 s a time-out.",
                fix=f"Use one fixed id on all nodes: {told_id.written} {fixed}.",
                edits=(Edit(told_id.span, fixed),),
            )
        known = [(launch, told_id) for launch, told_id in given if told_id.sure is not None]
        for launch, told_id in known[1:]:
            first_launch, first = known[0]
            if told_id.sure != first.sure:
                yield LintFinding(
                    span=told_id.span,
                    summary=f"{told_id.written} is {told_id.text} on {label(job, launch)} and {first.text} on"
                    f" {label(job, first_launch)}",
                    happens="Agents with different ids do not meet: each waits, and after 600 s there is a time-out.",
                    fix=f"Write {told_id.written} {first.text} on every node.",
                    edits=(Edit(told_id.span, first.word.raw),),
                )


@rule(
    "R10",
    title="A job with a fixed number of nodes names that number",
    severity="warning",
    source="measured with torch 2.13",
    bad=(
        _C10D.format(7).replace("--nnodes=2", "--nnodes=1:2"),
        "#@ every node\n" + _C10D.format(7).replace("--nnodes=2", "--nnodes=1:4"),
    ),
    good=(_C10D.format(7), _C10D.format(7).replace("--nnodes=2", "--nnodes=1:4 --max-restarts=3")),
)
def elastic_for_a_fixed_job(job: LintJob) -> Iterator[LintFinding]:
    """With --nnodes=MIN:MAX the training starts 30 s after MIN nodes have come. A node that is late finds it running;
    without --max-restarts it fails, and the job has fewer ranks than were paid for."""
    for world, launch in _torchruns(job):
        nodes, given = look.nnodes(launch), value(launch, "nnodes")
        if nodes is None or given is None or nodes[0] >= nodes[1]:
            continue
        restarts = value(launch, "max-restarts")
        if restarts is not None and number(restarts) != 0:
            continue
        wanted = world.nodes if world.nodes and nodes[0] <= world.nodes <= nodes[1] else nodes[1]
        yield LintFinding(
            span=given.span,
            summary=f"{given.written} {given.text} starts with {nodes[0]} to {nodes[1]} nodes, and without restarts",
            happens=f"30 s after {nodes[0]} {'node has' if nodes[0] == 1 else 'nodes have'} come the training starts;"
            " nodes that come later fail.",
            fix=f"For a fixed job write {given.written} {wanted}; else add {spell(launch, 'max-restarts')}=3.",
            edits=(Edit(given.span, str(wanted)),),
        )


@rule(
    "R13",
    title="One torchrun runs on each node",
    severity="warning",
    source="measured with torch 2.13",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "#@ node 0\n" + _C10D.format(7).strip() + " &\n" + _C10D.format(7) + "wait\n#@ node 1\n" + _C10D.format(7),
        _BATCH.replace("node=1", "node=2") + "srun " + _C10D.format("$SLURM_JOB_ID").replace("node=4", "node=1"),
    ),
    good=(
        "#@ node 0\n" + _C10D.format(7) + "#@ node 1\n" + _C10D.format(7),
        _BATCH + "srun " + _C10D.format("$SLURM_JOB_ID"),
    ),
)
def two_agents_on_a_node(job: LintJob) -> Iterator[LintFinding]:
    """c10d takes the first agents that come, as many as --nnodes says. With two on a node both may be of the same one,
    and another node is turned away."""
    for _, launch in _torchruns(job):
        count = look.nnodes(launch)
        if not look.is_dynamic(launch) or count is None or count[1] < 2:
            continue
        tasks = look.tasks_per_node(job, launch)
        nodes = look.srun_nodes(job, launch)
        if tasks and tasks > 1 and nodes and tasks * nodes > count[1]:
            yield LintFinding(
                span=look.head_span(launch),
                summary=f"srun starts {tasks * nodes} agents ({tasks} on each of {nodes} nodes) for {count[1]} places",
                happens="The first ones win, maybe all on one node; the others are turned away.",
                fix="Start one task on each node: --ntasks-per-node=1.",
            )
    trial: set[int] = set()
    for world in look.worlds(job):
        if look.on_one_machine(job, world) and len(world.launches) >= (look.nnodes(world.first) or (0, 0))[0]:
            trial |= {id(launch) for launch in world.launches}
    for first, second in look.neighbours(job):
        if id(second) in trial:
            continue
        if not (look.is_dynamic(first) and look.is_dynamic(second)) or not (look.nnodes(first) or (1, 1))[1] > 1:
            continue
        places = [given.shown if (given := look.endpoint(launch)) else None for launch in (first, second)]
        ids = [given.shown if (given := value(launch, "rdzv-id")) else None for launch in (first, second)]
        if places[0] == places[1] and ids[0] == ids[1]:
            yield LintFinding(
                span=look.head_span(second),
                summary=f"A second agent of the same rendezvous starts on {label(job, second)}",
                happens="c10d takes the first agents that come; both may be of this node; another is left out.",
                fix="Start one torchrun on each node, with all of its processes.",
            )
