"""From what was read to jobs as the rules see them: whose process is what, where each rank is, what recorders say."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from gpudoctor.hang.doing import acting_thread
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.gpus import gpus_of, uses_gpu, waits_in_driver
from gpudoctor.hang.job import HangJob, JobMember, Launcher, Members, Rank
from gpudoctor.hang.recorded import at_its_gpu, in_its_line
from gpudoctor.hang.recorders import Agreement, compare
from gpudoctor.knowledge.places import Place, main_thread, moved, place_of
from gpudoctor.launcher import command_lines as commands
from gpudoctor.launcher.command_lines import base
from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, NodeProcesses, ProcessEvidence, Recorder

MOST_RANKS = 1 << 17
"""Of a world size that is believed: our rule of thumb, twice the largest published job. A larger one is a typing error,
or hostile, and would cost memory for every rank that is missing."""
DUMPS_ONLY = "flight recorder dumps"
"""The id of a job of which only dumps were given."""


def assemble(evidence: Evidence) -> tuple[HangJob, ...]:
    """The jobs of the evidence, each with all that the rules ask for, the largest first."""
    every = find_jobs(
        [
            NodeProcesses(
                hostname=node.hostname or node.name,
                boot_id=node.boot_id,
                network_namespace=node.network_namespace,
                time=node.time,
                processes=tuple(process.process for process in node.processes),
            )
            for node in evidence.nodes
        ]
    )
    dumps = _by_rank(evidence.dumps)
    own = [members for members in every if _may_have_written(members, evidence, dumps)]
    jobs = [job_of(members, evidence, dumps if own == [members] else {}) for members in every]
    if len(own) != 1 and dumps:  # they are of a job that is gone, or of none that can be told
        agreement, world = _compared(dumps, 0)
        jobs.insert(0, HangJob(id=DUMPS_ONLY, evidence=evidence, world_size=world, agreement=agreement))
    return tuple(jobs)


def _may_have_written(members: Members, evidence: Evidence, dumps: Mapping[int, Recorder]) -> bool:
    """Whether dumps are those of a job that lives: of as many ranks, with the groups that its own recorders name, of
    the program that it runs, and begun no earlier than it was. Where nothing tells how many ranks either has, they are
    not joined: a job that was started after them, or somebody else's, is not asked what they mean."""
    own = [member for member in members.members if member.role in ("rank", "launcher")]
    sizes = Counter(member.world_size for member in own if member.world_size)
    if not dumps or not sizes or not _fits(dumps, sizes.most_common(1)[0][0]):
        return False
    programs = {base(commands.program_started(member.process.command)) for member in own}
    programs = {name for name in programs if name.endswith(".py")}
    files = {base(frame.file) for dump in dumps.values() for entry in dump.entries for frame in entry.frames}
    if programs and files and not programs & files:
        return False
    return all(_can_be_of(member, evidence.nodes[member.node], dumps) for member in own)


def _can_be_of(member: JobMember, node: NodeEvidence, dumps: Mapping[int, Recorder]) -> bool:
    """Whether this process, or the ranks that it has started, can have written the dumps: by time and by groups."""
    own = dumps.get(member.rank) if member.rank is not None else None
    if own is None and member.role == "rank":
        return True  # it left none
    started = node.time - member.process.age_seconds
    for dump in [own] if own is not None else dumps.values():
        if 0 < dump.written_at < started or any(0 < entry.created_ns / 1e9 < started - 1.0 for entry in dump.entries):
            return False
    live = next((process.recorder for process in node.processes if process.pid == member.process.pid), None)
    if own is None or live is None:
        return True
    named = [{group.key: group.ranks for group in recorder.groups if group.ranks} for recorder in (own, live)]
    return all(named[1][key] == ranks for key, ranks in named[0].items() if key in named[1])


def _fits(dumps: Mapping[int, Recorder], world: int) -> bool:
    """Whether dumps are of a job of so many ranks: the group of all of them names its members, in NCCL's; gloo's leave
    the ranks that have written them, and those that sends and receives name."""
    named = {len(group.ranks) for dump in dumps.values() for group in dump.groups if group.key == "0" and group.ranks}
    others = {rank for dump in dumps.values() for group in dump.groups for rank in group.ranks}
    return named <= {world} and max({*dumps, *others}) < world


def job_of(members: Members, evidence: Evidence, dumps: Mapping[int, Recorder] | None = None) -> HangJob:
    """The job that these processes of the evidence are. `dumps`: of flight recorders, by rank."""
    by_pid = [{process.pid: process for process in node.processes} for node in evidence.nodes]
    loaders: defaultdict[tuple[int, int], list[ProcessEvidence]] = defaultdict(list)
    helpers: defaultdict[tuple[int, int], list[ProcessEvidence]] = defaultdict(list)
    ranks: list[Rank] = []
    starters: list[tuple[JobMember, ProcessEvidence]] = []
    own: list[tuple[JobMember, ProcessEvidence]] = []
    for member in members.members:
        if not 0 <= member.node < len(evidence.nodes):
            continue
        process = by_pid[member.node].get(member.process.pid)
        if process is None:
            continue
        if member.role == "data loader":
            loaders[member.node, member.of].append(process)
        elif member.role == "launcher":
            starters.append((member, process))
        elif member.role == "rank" and member.rank is not None and 0 <= member.rank < MOST_RANKS:
            own.append((member, process))
        else:
            helpers[member.node, member.of].append(process)
    for member, process in own:
        key = member.node, process.process.pid
        ranks.append(_rank(member, process, evidence.nodes[member.node], loaders[key], helpers[key]))
    ranks.sort(key=lambda rank: (rank.rank, rank.node.name, rank.pid))
    world = _world_size(ranks)
    recorders = {**(dumps or {}), **{rank.rank: rank.evidence.recorder for rank in ranks if rank.evidence.recorder}}
    agreement = None
    if recorders:
        agreement, recorded = _compared(recorders, world)
        world = world or recorded
        ranks = [at_its_gpu(rank, agreement) for rank in ranks]
    nodes = dict.fromkeys(member.node for member in members.members if 0 <= member.node < len(evidence.nodes))
    return HangJob(
        id=members.id,
        user=members.user,
        evidence=evidence,
        world_size=world,
        master_address=members.master_address,
        master_port=members.master_port,
        ranks=tuple(ranks),
        launchers=_launchers(starters, own, evidence, by_pid),
        nodes=tuple(evidence.nodes[node] for node in nodes),
        agreement=agreement,
    )


def _rank(
    member: JobMember,
    process: ProcessEvidence,
    node: NodeEvidence,
    loaders: Sequence[ProcessEvidence],
    helpers: Sequence[ProcessEvidence],
) -> Rank:
    gpu = uses_gpu(process, node)
    acting = acting_thread(process)
    first, last = _places(process, acting, gpu=gpu)
    if gpu and waits_in_driver(process, first, last, gpus_of(process, node, member.local_rank)):
        first = last = last._replace(kind="cuda sync")
    process = in_its_line(process, last)
    assert member.rank is not None
    return Rank(
        rank=member.rank,
        local_rank=member.local_rank,
        world_size=member.world_size,
        node=node,
        evidence=process,
        place=last,
        first_place=first,
        moved=moved(process.samples, acting),
        acting=acting if acting != process.pid else 0,
        data_loaders=tuple(loaders),
        helpers=tuple(helpers),
    )


def _places(process: ProcessEvidence, thread: int, *, gpu: bool = False) -> tuple[Place, Place]:
    """Of a thread in the first and in the last sample."""
    if not process.samples:
        return place_of(None), place_of(None)
    mpi = any(name.startswith("libmpi") for name in process.libraries)
    threads = (main_thread(sample, thread) for sample in (process.samples[0], process.samples[-1]))
    first, last = (place_of(each, process.sources, gpu=gpu, mpi=mpi) for each in threads)
    return first, last


def _world_size(ranks: Sequence[Rank]) -> int:
    """What most ranks were told; the larger of two that as many were."""
    votes: defaultdict[int, int] = defaultdict(int)
    for rank in ranks:
        if rank.world_size is not None and 0 < rank.world_size <= MOST_RANKS:
            votes[rank.world_size] += 1
    return max(votes, key=lambda size: (votes[size], size)) if votes else 0


def _by_rank(dumps: Sequence[Recorder]) -> dict[int, Recorder]:
    """The newest dump of each rank."""
    newest: dict[int, Recorder] = {}
    for dump in dumps:
        if dump.rank is None or not 0 <= dump.rank < MOST_RANKS:
            continue
        if dump.rank not in newest or newest[dump.rank].written_at <= dump.written_at:
            newest[dump.rank] = dump
    return newest


def _compared(recorders: Mapping[int, Recorder], world: int) -> tuple[Agreement, int]:
    """What recorders agree on, and how many ranks the job has by them where nothing else tells."""
    named = (rank for recorder in recorders.values() for group in recorder.groups for rank in group.ranks)
    recorded = max((number for number in (*recorders, *named) if 0 <= number < MOST_RANKS), default=-1) + 1
    return compare(recorders, world or recorded), recorded


def _launchers(
    starters: Sequence[tuple[JobMember, ProcessEvidence]],
    own: Sequence[tuple[JobMember, ProcessEvidence]],
    evidence: Evidence,
    by_pid: Sequence[Mapping[int, ProcessEvidence]],
) -> tuple[Launcher, ...]:
    """Each with the ranks below it; a rank counts for the nearest launcher above it."""
    below: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    pids = {(member.node, process.process.pid) for member, process in starters}
    for member, process in own:
        above = process.process.parent
        for _ in range(64):  # a chain of parents from outside may be a ring
            if (member.node, above) in pids:
                below[member.node, above].append(member.rank or 0)
                break
            parent = by_pid[member.node].get(above)
            if parent is None:
                break
            above = parent.process.parent
    launchers = []
    for member, process in starters:
        pid = process.process.pid
        launchers.append(
            Launcher(
                node=evidence.nodes[member.node],
                evidence=process,
                kind=commands.launcher(process.process.command) or "script",
                place=_places(process, pid)[1],
                moved=moved(process.samples, pid),
                ranks=tuple(sorted(below[member.node, pid])),
            )
        )
    return tuple(launchers)
