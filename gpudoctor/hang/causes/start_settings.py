"""Settings that keep a job from starting: a preset LOCAL_RANK, a second initialisation, versions, debugging, limits."""

from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.causes import CAUSES
from gpudoctor.command import NONE, command
from gpudoctor.hang.causes import HangRule
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.starts import is_before_training, own_words, shown
from gpudoctor.hang.words import blame, process_of, ranks_of, verb, who, without
from gpudoctor.knowledge.nccl.rank_settings import AGREED, OF_EACH_RANK
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.wording import listed
from gpudoctor.launcher.registry import rank_setters
from gpudoctor.snapshot.evidence import Frame
from gpudoctor.sure import HINT, LIKELY, POSSIBLE, PROVED, SEEN

PRESET = ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK")
OF_A_LAUNCHER = ("TORCHELASTIC_RUN_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_WORLD_SIZE")
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
MOST_EVIDENCE = 10


def frames(rank: Rank) -> tuple[Frame, ...]:
    """Of the main thread in the last sample, innermost first; () where it was not read."""
    if not rank.evidence.samples:
        return ()
    thread = main_thread(rank.evidence.samples[-1], rank.pid)
    return thread.frames if thread is not None else ()


def local_rank_is_preset(job: HangJob) -> Iterator[HangCause]:
    """A process that takes itself for one of several, because LOCAL_RANK or NODE_RANK was set in its environment.

    Lightning (LightningEnvironment.creates_processes_externally) starts the other ranks itself, unless LOCAL_RANK is
    set: then it waits for somebody else to start them. Source: lightning/fabric/plugins/environments/lightning.py.
    """
    for rank in job.ranks:
        environment = rank.environment
        preset = [variable for variable in PRESET if environment.get(variable, "").strip()]
        if not preset or any(variable in environment for variable in OF_A_LAUNCHER) or "WORLD_SIZE" in environment:
            continue
        if not is_before_training(rank) or any(launcher.kind in rank_setters() for launcher in job.launchers):
            continue
        if len({other.rank for other in job.ranks}) > 1 and "LOCAL_RANK" in preset:
            continue
        if "LOCAL_RANK" not in preset and environment.get("MASTER_ADDR"):
            continue  # how Lightning is started over several nodes by hand
        lightning = next((frame for frame in frames(rank) if "lightning" in frame.file.lower()), None)
        # Lightning's own rule; another program may have been meant to be started so.
        sure = PROVED if lightning and "LOCAL_RANK" in preset and "MASTER_ADDR" not in environment else LIKELY
        values = listed(f"{variable}={environment[variable]}" for variable in preset)
        evidence = [
            Seen(
                f"pid {rank.pid} environment on {rank.node.host}",
                f"{values}, and no WORLD_SIZE nor launcher's variables",
            ),
            Seen(f"pid {rank.pid} stack", f"{rank.place.operation or 'init_process_group'}: waits for other ranks"),
        ]
        if lightning is not None:
            evidence.append(Seen(f"pid {rank.pid} stack", f"{lightning.function} ({lightning.file}:{lightning.line})"))
        unset = [word for variable in preset for word in ("-u", variable)]
        again = own_words(rank.node, rank.evidence.process)
        line = command("env {:arguments}", (*unset, *again)) if again else NONE
        if not line and rank.evidence.process.command:
            evidence.append(Seen(f"pid {rank.pid} command line", shown(rank.evidence.process)))
        yield blame(
            "local-rank-preset",
            sure,
            [rank],
            f"pid {rank.pid} on {rank.node.host} was started with {values} in its environment, by no launcher; it "
            "waits for ranks that nobody starts",
            evidence,
            at=rank.place.user_frame,
            fix=CAUSES["local-rank-preset"].remedy(
                "known", line or command("unset {:variables}", preset), variables=listed(preset)
            ),
            confirm=f"Start it with `env {' '.join(unset)}` in front: then it begins.",
        )
        return


def initialised_twice(job: HangJob) -> Iterator[HangCause]:
    """A second init_process_group with a store of its own, which under torchrun nobody hosts.

    With TORCHELASTIC_USE_AGENT_STORE, torch makes every rank a client of the store (distributed/rendezvous.py,
    `_create_c10d_store`), also for init_method="tcp://..." with a port on which no agent listens.
    """
    known = CAUSES["double-init"]
    stuck = [rank for rank in job.ranks if is_before_training(rank)]
    private = [
        rank
        for rank in stuck
        if _has(frames(rank), "_tcp_rendezvous_handler", "rendezvous.py")
        and rank.environment.get(AGENT_STORE, "").lower() in ("true", "1")
    ]
    if private:
        first = private[0]
        frame = first.place.user_frame
        head = first.environment.get("MASTER_ADDR", "")
        yield blame(
            "double-init",
            PROVED,  # torch's own rule
            private,
            f"{who(private, 'initialises', 'initialise')} a process group with a tcp:// store of their own"
            f"{f' at {frame.file}:{frame.line}' if frame is not None else ''}, which nobody hosts under torchrun",
            (
                Seen(f"{process_of(first)} stack", "_tcp_rendezvous_handler: init_method is a tcp:// address"),
                Seen(
                    f"rank {first.rank} environment",
                    f"{AGENT_STORE}=True, MASTER_ADDR={head}, so that no rank hosts a store",
                ),
            ),
            at=frame,
            fix=known.remedy("own store"),
        )
        return
    nested = [rank for rank in stuck if sum(frame.function == "init_process_group" for frame in frames(rank)) > 1]
    again = nested or _children_that_initialise(job)
    if again:
        inside = "init_process_group inside init_process_group"
        yield blame(
            "double-init",
            SEEN,  # the stacks; a library may do so on purpose, and wait for something else
            again,
            f"{who(again, 'initialises', 'initialise')} a process group a second time, and "
            f"{verb(again, 'waits', 'wait')} in it",
            [
                Seen(
                    f"{process_of(rank)} stack",
                    inside
                    if nested
                    else f"init_process_group, in a child of pid {rank.evidence.process.parent}, which is rank "
                    f"{rank.rank} too",
                )
                for rank in again[:MOST_EVIDENCE]
            ],
            at=again[0].place.user_frame,
            fix=known.remedy("twice"),
            confirm="Print a line before each init_process_group, with os.getpid(): two from one rank show it.",
        )


def _children_that_initialise(job: HangJob) -> list[Rank]:
    """Ranks in their set-up whose parent is the same rank."""
    by_pid = {(rank.node.host, rank.pid): rank.rank for rank in job.ranks}
    return [
        rank
        for rank in job.ranks
        if by_pid.get((rank.node.host, rank.evidence.process.parent)) == rank.rank and is_before_training(rank)
    ]


def _has(stack: Sequence[Frame], function: str, file: str) -> bool:
    return any(frame.function == function and frame.file.endswith(file) for frame in stack)


def versions_differ(job: HangJob) -> Iterator[HangCause]:
    """Ranks with another torch or NCCL than the others, or other settings of what all ranks must choose alike."""
    known = CAUSES["version-mismatch"]
    if not any(_waits_for_others(rank) for rank in job.ranks):
        return
    early = any(is_before_training(rank) for rank in job.ranks)
    for library in ("nccl", "torch"):
        values = _by_value((rank, rank.evidence.versions.get(library)) for rank in job.ranks)
        if len(values) < 2:
            continue
        strays = [rank for ranks in list(values.values())[1:] for rank in ranks]
        yield blame(
            "version-mismatch",
            SEEN if early else LIKELY,  # what trains has got over the start with them
            strays,
            f"the ranks run different {library} versions: "
            + listed(f"{version} on {ranks_of(ranks)}" for version, ranks in values.items()),
            [Seen(f"{ranks_of(ranks)} maps", f"{library} {version}") for version, ranks in values.items()][
                :MOST_EVIDENCE
            ],
            fix=known.remedy("hosts", hosts=listed(dict.fromkeys(rank.node.host for rank in strays))),
            confirm="Start the job with the same version everywhere.",
        )
        return
    if not any(map(_has_nccl, job.ranks)):
        return
    names = {name for rank in job.ranks for name in rank.environment if AGREED.fullmatch(name)}
    read = [rank for rank in job.ranks if rank.evidence.process.environment_read]
    for name in sorted(name for name in names if not OF_EACH_RANK.fullmatch(name)):
        values = _by_value((rank, rank.environment.get(name, "not set")) for rank in read)
        if len(values) < 2:
            continue
        usual = next(iter(values))
        yield blame(
            "version-mismatch",
            SEEN,  # which of them NCCL minds depends on its value
            [rank for ranks in list(values.values())[1:] for rank in ranks],
            f"{name} differs between the ranks: "
            + listed(f"{value} on {ranks_of(ranks)}" for value, ranks in values.items()),
            [Seen(f"{ranks_of(ranks)} environment", f"{name} is {value}") for value, ranks in values.items()][
                :MOST_EVIDENCE
            ],
            fix=known.remedy(
                "setting",
                command("unset {:variable}", name)
                if usual == "not set"
                else command("export {:variable}={:value}", name, usual),
                variable=name,
            ),
            confirm=f"Start the job with {name} alike everywhere.",
        )
        return


def debugging_in_the_way(job: HangJob) -> Iterator[HangCause]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL on some ranks, or at all; CUDA_LAUNCH_BLOCKING=1 with NCCL."""
    stuck = [rank for rank in job.ranks if _waits_for_others(rank)]
    if not stuck:
        return
    debug = "TORCH_DISTRIBUTED_DEBUG"
    detail = [rank for rank in job.ranks if rank.environment.get(debug, "").strip().upper() == "DETAIL"]
    read = [rank for rank in job.ranks if rank.evidence.process.environment_read]
    evidence = [Seen(f"{ranks_of(detail)} environment", f"{debug}=DETAIL")]
    if detail and len(detail) < len(read):
        rest = without(read, detail)
        yield blame(
            "debug-wrapper-artifact",
            SEEN,  # the wrapper's collectives have nobody to answer them
            detail,
            f"{debug}=DETAIL is set for {ranks_of(detail)} only; with it every collective brings another one along, "
            "which the other ranks do not make",
            (*evidence, Seen(f"{ranks_of(rest)} environment", f"{debug} is not DETAIL")),
            fix=CAUSES["debug-wrapper-artifact"].remedy("some"),
        )
    elif detail and (job.world_size or len(job.ranks)) >= 3:
        summary = f"{debug}=DETAIL wraps every collective, and has hung jobs that run without it"
        yield blame("debug-wrapper-artifact", HINT, (), summary, evidence)
    blocking = [
        rank
        for rank in job.ranks
        if rank.environment.get("CUDA_LAUNCH_BLOCKING", "").strip() not in ("", "0") and _has_nccl(rank)
    ]
    if blocking:
        yield blame(
            "launch-blocking-env",
            POSSIBLE,  # NCCL and programs may be written so that it does not matter
            blocking,
            f"CUDA_LAUNCH_BLOCKING=1 is set for {ranks_of(blocking)}: each launch waits for its kernel, and NCCL's "
            "kernels wait for those of the other ranks",
            [Seen(f"{ranks_of(blocking)} environment", "CUDA_LAUNCH_BLOCKING=1, with NCCL loaded")],
        )


def memory_may_not_be_locked(job: HangJob) -> Iterator[HangCause]:
    """A low memlock limit where RDMA devices are open and the communicator is not there yet."""
    low = [
        rank
        for rank in job.ranks
        if is_before_training(rank)
        and rank.evidence.limits.get("memlock", "unlimited") != "unlimited"
        and any("/dev/infiniband/" in file for file in rank.evidence.open_files)
    ]
    if low:
        yield blame(
            "memlock-limit",
            POSSIBLE,  # it may be enough for what NCCL registers
            low,
            f"{ranks_of(low)} may lock {low[0].evidence.limits['memlock']} bytes of memory, and RDMA registers its "
            "buffers with locked memory",
            [
                Seen(f"{process_of(rank)} limits", f"memlock {rank.evidence.limits['memlock']}")
                for rank in low[:MOST_EVIDENCE]
            ],
            confirm="NCCL_DEBUG=INFO shows `ibv_reg_mr` and `Cannot allocate memory` where this is the cause.",
        )


def _waits_for_others(rank: Rank) -> bool:
    return is_before_training(rank) or (
        rank.place.kind in ("collective", "point-to-point", "cuda sync", "backward") and rank.place == rank.first_place
    )


def _has_nccl(rank: Rank) -> bool:
    return any("libnccl" in library for library in rank.evidence.libraries)


def _by_value(values: Iterable[tuple[Rank, str | None]]) -> dict[str, list[Rank]]:
    """The most common value first; what is not known is left out."""
    by_value: dict[str, list[Rank]] = {}
    for rank, value in values:
        if value:
            by_value.setdefault(value, []).append(rank)
    return dict(sorted(by_value.items(), key=lambda item: -len(item[1])))


RULES: tuple[HangRule, ...] = (
    local_rank_is_preset,
    initialised_twice,
    versions_differ,
    debugging_in_the_way,
    memory_may_not_be_locked,
)
