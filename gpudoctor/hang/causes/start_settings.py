"""Settings that keep a job from starting: a preset LOCAL_RANK, a second initialisation, versions, debugging, limits."""

from collections.abc import Callable, Iterator, Sequence

from gpudoctor.check import Fix
from gpudoctor.command import NONE, command
from gpudoctor.hang.causes import Rule
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.report import HangCause, Seen, Where
from gpudoctor.hang.starts import WAITS_FOR_RANKS, is_before_training, name, own_words, shown
from gpudoctor.knowledge.nccl.rank_settings import AGREED, OF_EACH_RANK
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.wording import counted, listed, ranges
from gpudoctor.snapshot.evidence import Frame

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


def local_rank_is_preset(job: Job) -> Iterator[HangCause]:
    """A process that takes itself for one of several, because LOCAL_RANK or NODE_RANK was set in its environment.

    Lightning (LightningEnvironment.creates_processes_externally) starts the other ranks itself, unless LOCAL_RANK is
    set: then it waits for somebody else to start them. Source: lightning/fabric/plugins/environments/lightning.py.
    """
    for rank in job.ranks:
        environment = rank.evidence.process.environment
        preset = [each for each in PRESET if environment.get(each, "").strip()]
        if not preset or any(each in environment for each in OF_A_LAUNCHER) or "WORLD_SIZE" in environment:
            continue
        if not is_before_training(rank) or any(each.kind in WAITS_FOR_RANKS for each in job.launchers):
            continue
        if len({other.rank for other in job.ranks}) > 1 and "LOCAL_RANK" in preset:
            continue
        if "LOCAL_RANK" not in preset and environment.get("MASTER_ADDR"):
            continue  # how Lightning is started over several nodes by hand
        lightning = next((frame for frame in frames(rank) if "lightning" in frame.file.lower()), None)
        sure = lightning is not None and "LOCAL_RANK" in preset and "MASTER_ADDR" not in environment
        values = listed(f"{each}={environment[each]}" for each in preset)
        evidence = [
            Seen(
                f"pid {rank.pid} environment on {name(rank.node)}",
                f"{values}, and no WORLD_SIZE nor launcher's variables",
            ),
            Seen(f"pid {rank.pid} stack", f"{rank.place.operation or 'init_process_group'}: waits for other ranks"),
        ]
        if lightning is not None:
            evidence.append(Seen(f"pid {rank.pid} stack", f"{lightning.function} ({lightning.file}:{lightning.line})"))
        unset = [word for each in preset for word in ("-u", each)]
        again = own_words(rank.node, rank.evidence.process)
        line = command("env {:arguments}", (*unset, *again)) if again else NONE
        if not line and rank.evidence.process.command:
            evidence.append(Seen(f"pid {rank.pid} command line", shown(rank.evidence.process)))
        yield HangCause(
            cause="local-rank-preset",
            confidence=0.95 if sure else 0.6,
            ranks=(rank.rank,),
            where=_user_line(rank),
            evidence=tuple(evidence),
            summary=f"pid {rank.pid} on {name(rank.node)} was started with {values} in its environment, by no "
            "launcher; it waits for ranks that nobody starts",
            fix=Fix(
                f"Unset {listed(preset)} and start again; what sets it is an rc file, an image's ENV, or the shell "
                "of an earlier job. "
                + ("The line starts it without." if line else "The line goes before the start, in the same shell."),
                (line or command("unset {:variables}", preset),),
            ),
            confirm="" if sure else f"Start it with `env {' '.join(unset)}` in front: then it begins.",
        )
        return


def initialised_twice(job: Job) -> Iterator[HangCause]:
    """A second init_process_group with a store of its own, which under torchrun nobody hosts.

    With TORCHELASTIC_USE_AGENT_STORE, torch makes every rank a client of the store (distributed/rendezvous.py,
    `_create_c10d_store`), also for init_method="tcp://..." with a port on which no agent listens.
    """
    stuck = [rank for rank in job.ranks if is_before_training(rank)]
    private = [rank for rank in stuck if _has(frames(rank), "_tcp_rendezvous_handler", "rendezvous.py")]
    private = [
        rank for rank in private if rank.evidence.process.environment.get(AGENT_STORE, "").lower() in ("true", "1")
    ]
    if private:
        first = private[0]
        at = _user_line(first)
        place = f" at {at.file}:{at.line}" if at is not None else ""
        yield HangCause(
            cause="double-init",
            confidence=0.95,
            ranks=tuple(rank.rank for rank in private),
            where=at,
            evidence=(
                Seen(f"rank {first.rank} pid {first.pid} stack", "_tcp_rendezvous_handler: init_method is a tcp:// "
                "address"),
                Seen(f"rank {first.rank} environment", f"{AGENT_STORE}=True, MASTER_ADDR="
                     f"{first.evidence.process.environment.get('MASTER_ADDR', '')}, so that no rank hosts a store"),
            ),
            summary=f"{_ranks_words(private)} initialise a process group with a tcp:// store of their own{place}, "
            "which nobody hosts under torchrun",
            fix=Fix(
                "Initialise once, and from torchrun's own variables: dist.init_process_group(backend) without "
                "init_method, rank and world_size. Where a library does it, initialise before the library or let "
                "only the library do it. Where two stores are wanted, take the variable out before the second: "
                f"os.environ.pop({AGENT_STORE!r}, None).",
            ),
        )  # fmt: skip
        return
    nested = [rank for rank in stuck if sum(frame.function == "init_process_group" for frame in frames(rank)) > 1]
    again = nested or _children_that_initialise(job)
    if again:
        first = again[0]
        yield HangCause(
            cause="double-init",
            confidence=0.85,
            ranks=tuple(sorted({rank.rank for rank in again})),
            where=_user_line(first),
            evidence=tuple(
                Seen(
                    f"rank {rank.rank} pid {rank.pid} stack",
                    "init_process_group inside init_process_group"
                    if nested
                    else f"init_process_group, in a child of pid {rank.evidence.process.parent}, which is rank "
                    f"{rank.rank} too",
                )
                for rank in again[:MOST_EVIDENCE]
            ),
            summary=f"{_ranks_words(again)} initialise a process group a second time, and wait in it",
            fix=Fix(
                "Initialise once a process, and in no child of a rank: a child inherits RANK and MASTER_PORT and "
                "joins as a rank that is there already. Start children with these variables taken out.",
            ),
            confirm="Print a line before each init_process_group, with os.getpid(): two from one rank show it.",
        )


def _children_that_initialise(job: Job) -> list[Rank]:
    """Ranks in their set-up whose parent is the same rank."""
    by_pid = {(name(rank.node), rank.pid): rank for rank in job.ranks}
    found = []
    for rank in job.ranks:
        parent = by_pid.get((name(rank.node), rank.evidence.process.parent))
        if parent is not None and parent.rank == rank.rank and is_before_training(rank):
            found.append(rank)
    return found


def _has(stack: Sequence[Frame], function: str, file: str) -> bool:
    return any(frame.function == function and frame.file.endswith(file) for frame in stack)


def _user_line(rank: Rank) -> Where | None:
    frame = rank.place.user_frame
    return Where(frame.file, frame.line, frame.function) if frame is not None else None


def versions_differ(job: Job) -> Iterator[HangCause]:
    """Ranks with another torch or NCCL than the others, or other settings of what all ranks must choose alike."""
    if not any(_waits_for_others(rank) for rank in job.ranks):
        return
    for library in ("nccl", "torch"):
        values = _by_value(job.ranks, lambda rank, library=library: rank.evidence.versions.get(library))  # type: ignore[misc]
        if len(values) < 2:
            continue
        strays = [rank for ranks in list(values.values())[1:] for rank in ranks]
        early = any(is_before_training(rank) for rank in job.ranks)
        yield HangCause(
            cause="version-mismatch",
            confidence=0.8 if early else 0.55,
            ranks=_numbers(strays),
            evidence=tuple(
                Seen(f"{_ranks_words(ranks)} maps", f"{library} {version}") for version, ranks in values.items()
            )[:MOST_EVIDENCE],
            summary=f"The ranks run different {library} versions: "
            + listed(f"{version} on {_ranks_words(ranks).lower()}" for version, ranks in values.items()),
            fix=Fix(
                "Start every rank from the same image or environment; these are the hosts with another one: "
                f"{listed(dict.fromkeys(name(rank.node) for rank in strays))}.",
                (command("python -c 'import torch; print(torch.__version__, torch.cuda.is_available() and "
                "torch.cuda.nccl.version())'"),),
            ),
            confirm="Start the job with the same version everywhere.",
        )  # fmt: skip
        return
    names = sorted(
        {
            each
            for rank in job.ranks
            for each in rank.evidence.process.environment
            if AGREED.fullmatch(each) and not OF_EACH_RANK.fullmatch(each)
        }
    )
    if not any("libnccl" in each for rank in job.ranks for each in rank.evidence.libraries):
        return
    read = [rank for rank in job.ranks if rank.evidence.process.environment_read]
    for each in names:
        found = _by_value(read, lambda rank, each=each: rank.evidence.process.environment.get(each, "not set"))  # type: ignore[misc]
        if len(found) < 2:
            continue
        strays = [rank for ranks in list(found.values())[1:] for rank in ranks]
        usual = next(iter(found))
        yield HangCause(
            cause="version-mismatch",
            confidence=0.7,
            ranks=_numbers(strays),
            evidence=tuple(
                Seen(f"{_ranks_words(ranks)} environment", f"{each} is {value}") for value, ranks in found.items()
            )[:MOST_EVIDENCE],
            summary=f"{each} differs between the ranks: "
            + listed(f"{value} on {_ranks_words(ranks).lower()}" for value, ranks in found.items()),
            meaning="NCCL compares no settings between ranks: ranks that choose another algorithm, protocol or "
            "transport wait for one another for ever.",
            fix=Fix(
                f"Set {each} alike in the environment of every rank.",
                (
                    command("unset {:variable}", each)
                    if usual == "not set"
                    else command("export {:variable}={:value}", each, usual),
                ),
            ),
            confirm=f"Start the job with {each} alike everywhere.",
        )
        return


def debugging_in_the_way(job: Job) -> Iterator[HangCause]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL on some ranks, or at all; CUDA_LAUNCH_BLOCKING=1 with NCCL."""
    stuck = [rank for rank in job.ranks if _waits_for_others(rank)]
    if not stuck:
        return
    detail = [rank for rank in job.ranks if _value(rank, "TORCH_DISTRIBUTED_DEBUG").upper() == "DETAIL"]
    read = [rank for rank in job.ranks if rank.evidence.process.environment_read]
    if detail and len(detail) < len(read):
        detailed = {id(rank) for rank in detail}
        rest = [rank for rank in read if id(rank) not in detailed]
        yield HangCause(
            cause="debug-wrapper-artifact",
            confidence=0.85,
            ranks=_numbers(detail),
            evidence=(
                Seen(f"{_ranks_words(detail)} environment", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
                Seen(f"{_ranks_words(rest)} environment", "TORCH_DISTRIBUTED_DEBUG is not DETAIL"),
            ),
            summary=f"TORCH_DISTRIBUTED_DEBUG=DETAIL is set for {_ranks_words(detail).lower()} only; with it every "
            "collective brings another one along, which the other ranks do not make",
            fix=Fix("Set it for every rank or for none.", (command("unset TORCH_DISTRIBUTED_DEBUG"),)),
            confirm="Start the job without it.",
        )
    elif detail and (job.world_size or len(job.ranks)) >= 3:
        yield HangCause(
            cause="debug-wrapper-artifact",
            confidence=0.15,
            ranks=(),
            evidence=(Seen(f"{_ranks_words(detail)} environment", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),),
            summary="TORCH_DISTRIBUTED_DEBUG=DETAIL wraps every collective, and has hung jobs that run without it",
            fix=Fix("Start the job without it.", (command("unset TORCH_DISTRIBUTED_DEBUG"),)),
            confirm="Start the job without it: if it runs, the wrapper is the cause.",
        )
    blocking = [rank for rank in job.ranks if _value(rank, "CUDA_LAUNCH_BLOCKING") not in ("", "0") and _has_nccl(rank)]
    if blocking:
        yield HangCause(
            cause="launch-blocking-env",
            confidence=0.4,
            ranks=_numbers(blocking),
            evidence=(Seen(f"{_ranks_words(blocking)} environment", "CUDA_LAUNCH_BLOCKING=1, with NCCL loaded"),),
            summary=f"CUDA_LAUNCH_BLOCKING=1 is set for {_ranks_words(blocking).lower()}: each launch waits for its "
            "kernel, and NCCL's kernels wait for those of the other ranks",
            fix=Fix("Start the job without it.", (command("unset CUDA_LAUNCH_BLOCKING"),)),
            confirm="Start the job without it: if it runs, this was the cause.",
        )


def memory_may_not_be_locked(job: Job) -> Iterator[HangCause]:
    """A low memlock limit where RDMA devices are open and the communicator is not there yet."""
    low = [
        rank
        for rank in job.ranks
        if is_before_training(rank)
        and rank.evidence.limits.get("memlock", "unlimited") != "unlimited"
        and any("/dev/infiniband/" in each for each in rank.evidence.open_files)
    ]
    if not low:
        return
    value = low[0].evidence.limits["memlock"]
    yield HangCause(
        cause="memlock-limit",
        confidence=0.4,
        ranks=_numbers(low),
        evidence=tuple(
            Seen(f"rank {rank.rank} pid {rank.pid} limits", f"memlock {rank.evidence.limits['memlock']}")
            for rank in low
        )[:MOST_EVIDENCE],
        summary=f"{_ranks_words(low)} may lock {value} bytes of memory, and RDMA registers its buffers with locked "
        "memory",
        fix=Fix(
            "Allow unlimited locked memory where the ranks are started: in the unit (LimitMEMLOCK=infinity), the "
            "container (--ulimit memlock=-1), or /etc/security/limits.conf.",
            (command("ulimit -l unlimited"),),
        ),
        confirm="NCCL_DEBUG=INFO shows `ibv_reg_mr` and `Cannot allocate memory` where this is the cause.",
    )


def _waits_for_others(rank: Rank) -> bool:
    return is_before_training(rank) or (
        rank.place.kind in ("collective", "point-to-point", "cuda sync", "backward") and rank.place == rank.first_place
    )


def _value(rank: Rank, variable: str) -> str:
    return rank.evidence.process.environment.get(variable, "").strip()


def _has_nccl(rank: Rank) -> bool:
    return any("libnccl" in each for each in rank.evidence.libraries)


def _by_value(ranks: Sequence[Rank], of: Callable[[Rank], str | None]) -> dict[str, list[Rank]]:
    """The most common value first; what is not known is left out."""
    found: dict[str, list[Rank]] = {}
    for rank in ranks:
        value = of(rank)
        if value:
            found.setdefault(value, []).append(rank)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _numbers(ranks: Sequence[Rank]) -> tuple[int, ...]:
    return tuple(sorted({rank.rank for rank in ranks}))


def _ranks_words(ranks: Sequence[Rank]) -> str:
    numbers = _numbers(ranks)
    return f"{'Rank' if len(numbers) == 1 else 'Ranks'} {ranges(numbers)}" if numbers else counted(0, "rank")


RULES: tuple[Rule, ...] = (
    local_rank_is_preset,
    initialised_twice,
    versions_differ,
    debugging_in_the_way,
    memory_may_not_be_locked,
)
