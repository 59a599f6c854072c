"""Hand-made jobs: the ranks, where each is, and the evidence that a reader would have brought of them.

    job = a_job(waits(0), waits(1), sleeps(2, at=52))
    job = a_job(waits(0), missing=(1,), nodes={"a": {"kernel": (KernelEvent(...),)}})

Everything is built twice: as `Job`, for rules, and as `Evidence` with stacks and samples as `assemble` reads them
(`job.evidence`), so that a test of the whole way starts from the same words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gpudoctor.hang.job import HangJob, Launcher, Rank
from gpudoctor.hang.recorders import Agreement
from gpudoctor.knowledge.places import Kind, Place
from gpudoctor.snapshot.evidence import (
    Enclosing,
    Evidence,
    Frame,
    NodeEvidence,
    Process,
    ProcessEvidence,
    Recorder,
    Sample,
    SourceContext,
    Thread,
)

PROGRAM = "/home/mara/train.py"
TORCH = "/usr/lib/python3/site-packages/torch"
SECONDS = 2.5
"""Between the two samples."""

_LIBRARY: dict[str, tuple[str, str]] = {
    "collective": ("{operation}", f"{TORCH}/distributed/distributed_c10d.py"),
    "point-to-point": ("{operation}", f"{TORCH}/distributed/distributed_c10d.py"),
    "communicator init": ("init_process_group", f"{TORCH}/distributed/distributed_c10d.py"),
    "rendezvous": ("_create_c10d_store", f"{TORCH}/distributed/rendezvous.py"),
    "backward": ("backward", f"{TORCH}/_tensor.py"),
    "cuda sync": ("synchronize", f"{TORCH}/cuda/__init__.py"),
    "data": ("_try_get_data", f"{TORCH}/utils/data/dataloader.py"),
    "storage": ("_save", f"{TORCH}/serialization.py"),
    "exit": ("destroy_process_group", f"{TORCH}/distributed/distributed_c10d.py"),
    "store wait": ("barrier", f"{TORCH}/distributed/elastic/utils/store.py"),
    "input": ("readline", "/usr/lib/python3.11/cmd.py"),
    "compile": ("acquire", f"{TORCH}/_inductor/codecache.py"),
}


def source(
    line: int,
    *,
    inside: Sequence[tuple[str, int, str]] = (),
    exits: Sequence[tuple[str, int, str]] = (),
    calls: Sequence[tuple[str, int, str]] = (),
    function: str = "main",
    file: str = PROGRAM,
    text: str = "",
) -> SourceContext:
    """What the program says around a line. Each statement is (kind, line, text), innermost first."""
    return SourceContext(
        file=file,
        line=line,
        function=function,
        text=text,
        enclosing=tuple(Enclosing(*each) for each in inside),
        exits=tuple(Enclosing(*each) for each in exits),
        calls=tuple(Enclosing(*each) for each in calls),
    )


def place_at(kind: Kind, operation: str = "", *, at: int = 41, function: str = "main", file: str = PROGRAM) -> Place:
    """A place below a line of the user's program."""
    user = Frame(function, file, at)
    frames = (user,) if function == "<module>" else (user, Frame("<module>", file, 900))
    if kind == "unknown":
        return Place("unknown")
    return Place(kind, operation, _library(kind, operation), user, frames)


def _library(kind: str, operation: str) -> Frame | None:
    if kind not in _LIBRARY:
        return None
    function, file = _LIBRARY[kind]
    return Frame(function.format(operation=operation), file, 100)


def stack(place: Place) -> tuple[Frame, ...]:
    """The frames that `place_of` takes for the place, innermost first."""
    library = (place.library_frame,) if place.library_frame else ()
    return (*library, *place.user_frames)


def member(
    rank: int,
    place: Place,
    *,
    first: Place | None = None,
    moved: bool | None = False,
    host: str = "a",
    pid: int = 0,
    state: str = "S",
    exit_code: int = 0,
    waits_in: str = "futex_do_wait",
    switches: tuple[int, int] | None = None,
    cpu: tuple[float, float] | None = None,
    process_cpu: tuple[float, float] | None = None,
    written: tuple[int, int] | None = None,
    owns_gil: bool | None = False,
    more_threads: Sequence[Thread] = (),
    samples: int = 2,
    local_rank: int | None = None,
    world_size: int | None = None,
    environment: Mapping[str, str] | None = None,
    data_loaders: Sequence[ProcessEvidence] = (),
    age: float = 600.0,
    parent: int = 1000,
    **evidence: Any,
) -> Rank:
    """A rank at a place, the same in both samples unless said. `switches` and `cpu` are its main thread's in each.
    Of its node there is the name alone; `a_job` makes the rest."""
    pid = pid or 4000 + rank
    counts = switches or ((50, 90) if moved else (50, 50))
    seconds = cpu or ((3.0, 4.5) if moved else (3.0, 3.0))
    used = process_cpu or seconds
    bytes_written = written or (1000, 1000)
    taken = tuple(
        Sample(
            at=SECONDS * index,
            state=state,
            cpu_seconds=used[index],
            read_bytes=1000,
            written_bytes=bytes_written[index],
            stacks_by="py-spy" if where.kind != "unknown" else "",
            threads=(
                Thread(
                    id=pid,
                    name="MainThread",
                    state=state,
                    cpu_seconds=seconds[index],
                    switches=counts[index],
                    waits_in=waits_in,
                    owns_gil=owns_gil,
                    frames=stack(where),
                ),
                *more_threads,
            ),
        )
        for index, where in enumerate((first or place, place))
    )[2 - samples :]
    names = {"RANK": str(rank), "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", **(environment or {})}
    process = Process(
        pid=pid,
        parent=parent,
        started=7000,
        age_seconds=age,
        state=state,
        exit_code=exit_code,
        name="python",
        command=("python", "train.py"),
        environment=names,
        environment_read=True,
    )
    return Rank(
        rank=rank,
        node=NodeEvidence(name=host),
        local_rank=local_rank,
        world_size=world_size,
        evidence=ProcessEvidence(process=process, samples=taken, **evidence),
        place=place if taken else Place("unknown"),
        first_place=(first or place) if taken else Place("unknown"),
        moved=moved if samples == 2 else None,
        data_loaders=tuple(data_loaders),
    )


def waits(rank: int, operation: str = "all_reduce", *, at: int = 41, function: str = "main", **more: Any) -> Rank:
    """A rank that waits in a collective."""
    return member(rank, place_at("collective", operation, at=at, function=function), **more)


def is_in(rank: int, kind: Kind, operation: str = "", *, at: int = 52, function: str = "main", **more: Any) -> Rank:
    """A rank at another place."""
    return member(rank, place_at(kind, operation, at=at, function=function), **more)


SERVING = Thread(id=77, name="serve", state="S", waits_in="ep_poll", frames=(Frame("serve", PROGRAM, 9),))
"""A thread that may put into a queue."""


def serves(rank: int, *, at: int = 52, **more: Any) -> Rank:
    """In a queue, beside a thread that fills it."""
    stands = is_in(rank, "user code", "queue.get", at=at, **more)
    samples = tuple(replace(sample, threads=(*sample.threads, SERVING)) for sample in stands.evidence.samples)
    return replace(stands, evidence=replace(stands.evidence, samples=samples))


def sleeps(rank: int, *, at: int = 52, **more: Any) -> Rank:
    return is_in(rank, "sleep", "time.sleep", at=at, waits_in="hrtimer_nanosleep", **more)


def data_loader(pid: int, of: int, *, cpu: tuple[float, float] = (1.0, 1.0), waits_in: str = "futex_do_wait",
                frames: Sequence[Frame] = (), state: str = "S") -> ProcessEvidence:  # fmt: skip
    """A worker process of a DataLoader."""
    thread = Thread(id=pid, state=state, waits_in=waits_in, switches=9, frames=tuple(frames))
    return ProcessEvidence(
        process=Process(pid=pid, parent=of, started=7100, state=state, name="pt_data_worker"),
        samples=tuple(
            Sample(at=SECONDS * index, state=state, cpu_seconds=cpu[index], threads=(thread,)) for index in (0, 1)
        ),
    )


def launcher(pid: int = 1000, *, host: str = "a", command: Sequence[str] = ("torchrun", "train.py")) -> ProcessEvidence:
    return ProcessEvidence(
        process=Process(pid=pid, parent=1, started=6900, age_seconds=610.0, state="S", command=tuple(command)),
        samples=(Sample(at=0.0, state="S"), Sample(at=SECONDS, state="S")),
    )


def _pids(members: Sequence[Rank], host: str, starters: Mapping[str, ProcessEvidence]) -> tuple[int, ...]:
    """All of a node: the job is the reader's own."""
    there = [each.evidence for each in members if each.node.host == host]
    there += [starters[host]] if host in starters else []
    return tuple(each.process.pid for each in there)


def a_job(
    *members: Rank,
    world_size: int | None = None,
    missing: Sequence[int] = (),
    agreement: Agreement | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    launchers: Mapping[str, ProcessEvidence] | None = None,
    dumps: Sequence[Recorder] = (),
    lost: Mapping[str, str] | None = None,
    master_address: str = "10.0.0.1",
    master_port: int = 29500,
) -> HangJob:
    """A job of these ranks. `missing` only counts towards its world size; `nodes` gives a node's own fields."""
    world = world_size if world_size is not None else len(members) + len(missing)
    given = nodes or {}
    starters = launchers if launchers is not None else {host: launcher(host=host) for host in _hosts(members)}
    complete: list[Rank] = []
    local: dict[str, int] = {}
    for each in members:
        number = local.get(each.node.host, 0)
        local[each.node.host] = number + 1
        complete.append(_complete(each, number if each.local_rank is None else each.local_rank, world))
    made = {
        host: NodeEvidence(
            name=host,
            hostname=host,
            boot_id=f"boot {host}",
            network_namespace=f"net:[{index}]",
            processes=tuple(
                process
                for each in complete
                if each.node.host == host
                for process in (each.evidence, *each.data_loaders)
            )
            + ((starters[host],) if host in starters else ()),
            **{"own": _pids(complete, host, starters), **given.get(host, {})},
        )
        for index, host in enumerate(dict.fromkeys((*_hosts(members), *starters, *given)))
    }  # fmt: skip
    evidence = Evidence(nodes=tuple(made.values()), dumps=tuple(dumps), lost=dict(lost or {}))
    ranks = tuple(replace(each, node=made[each.node.host]) for each in sorted(complete, key=lambda one: one.rank))
    return HangJob(
        id=f"torchrun none at {master_address}:{master_port}",
        evidence=evidence,
        world_size=world,
        master_address=master_address,
        master_port=master_port,
        ranks=ranks,
        launchers=tuple(
            Launcher(
                node=made[host],
                evidence=starter,
                kind="torchrun",
                place=Place("unknown"),
                moved=True,
                ranks=tuple(each.rank for each in complete if each.node.host == host),
            )
            for host, starter in starters.items()
        ),
        nodes=tuple(node for host, node in made.items() if host in {*_hosts(members), *starters}),
        agreement=agreement,
    )


def _hosts(members: Sequence[Rank]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.node.host for each in members))


def _complete(each: Rank, local_rank: int, world: int) -> Rank:
    """With the environment that torchrun gives it."""
    process = each.evidence.process
    size = each.world_size if each.world_size is not None else world
    told = {"LOCAL_RANK": str(local_rank), "WORLD_SIZE": str(size), **process.environment}
    return replace(
        each,
        local_rank=local_rank,
        world_size=size,
        evidence=replace(each.evidence, process=replace(process, environment=told)),
    )
