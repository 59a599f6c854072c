"""A job's start as its launchers and ranks were told it: nodes, node rank, master, backend; who has not got past it.

Command lines are read by the launchers' files, from the words of /proc/PID/cmdline, so that no shell is involved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from gpudoctor.command import NONE, Command, command
from gpudoctor.hang.job import HangJob, Launcher, Rank
from gpudoctor.hang.report import Seen
from gpudoctor.knowledge.places import Kind
from gpudoctor.launcher import command_lines as commands, registry
from gpudoctor.launcher.told import ToldStart, number
from gpudoctor.lint.model import LintLaunch
from gpudoctor.snapshot.evidence import NodeEvidence, Process, ProcessEvidence, Socket

YOUNG = 15.0
"""Seconds after its launcher's start until somebody who is not there counts as missing: our rule of thumb. Importing
torch takes ten on a busy machine, and people start the nodes by hand, one after the other."""
BEFORE_TRAINING: tuple[Kind, ...] = ("rendezvous", "communicator init", "store wait")
LONGEST_COMMAND = 2000
"""Characters of a command line that is still worth printing again."""
LONGEST_SHOWN = 120
"""Of a command line that is evidence only."""
LONGEST_ARGUMENT = 512
"""An argument of this length was cut off (`evidence.Process.command`)."""


class Start(ToldStart, frozen=True, kw_only=True):
    """What one starter of ranks was told: a torchrun, an accelerate launch, or a rank that was started by hand."""

    node: NodeEvidence
    evidence: ProcessEvidence
    launcher: Launcher | None
    ranks: tuple[Rank, ...]
    """Below the launcher, or the rank itself."""
    kind: str
    """ "torchrun", "accelerate", "rank"."""
    launch: LintLaunch | None = None

    @property
    def process(self) -> Process:
        return self.evidence.process

    @property
    def where(self) -> str:
        """The node's name."""
        return self.node.host

    @property
    def age(self) -> float:
        return self.process.age_seconds

    @property
    def is_head(self) -> bool:
        """Whether it is on the node of rank 0."""
        return self.node_rank == 0 or any(rank.rank == 0 for rank in self.ranks)

    @property
    def evidences(self) -> tuple[ProcessEvidence, ...]:
        """Of itself and of its ranks."""
        return (self.evidence, *(rank.evidence for rank in self.ranks))

    @property
    def what(self) -> str:
        """ "torchrun pid 4711 on a"."""
        kind = f"rank {self.ranks[0].rank}" if self.launcher is None and self.ranks else self.kind
        return f"{kind} pid {self.process.pid} on {self.where}"

    def spelled(self, option: str) -> str:
        """Its launcher's own name of an option that torchrun has: "nnodes", "num_machines"."""
        if self.launch is None:
            return option
        kind = registry.traits(self.launch.launcher)
        own = kind.own_names.get(option, option)
        return own.replace("-", "_") if kind.underscores else own

    @property
    def is_waiting(self) -> bool:
        """It has not come past the rendezvous: a launcher without ranks, a rank inside of it."""
        if self.launcher is not None:
            if self.ranks or self.process.state == "Z":
                return False
            kind = self.launcher.place.kind
            return kind in BEFORE_TRAINING or (kind == "unknown" and not self._has_children)
        return any(is_before_training(rank) for rank in self.ranks)

    @property
    def _has_children(self) -> bool:
        """Something runs below it: ranks perhaps, of which nothing more could be read."""
        return any(process.process.parent == self.process.pid for process in self.node.processes)


def is_before_training(rank: Rank) -> bool:
    """In both looks it was in a rendezvous or set up a communicator."""
    return rank.place.kind in BEFORE_TRAINING and rank.first_place.kind in BEFORE_TRAINING


def starts_of(job: HangJob) -> tuple[Start, ...]:
    """One entry for each launcher that starts ranks, and for each rank that none of them has started."""
    return tuple(_starts(job))


def _starts(job: HangJob) -> Iterator[Start]:
    below: set[int] = set()
    by_number: dict[int, list[Rank]] = {}
    for rank in job.ranks:
        by_number.setdefault(rank.rank, []).append(rank)
    for launcher in job.launchers:
        ranks = tuple(
            rank
            for number in launcher.ranks
            for rank in by_number.get(number, ())
            if rank.node is launcher.node or same_node(rank.node, launcher.node)
        )
        launch = launch_of(launcher.evidence.process)
        kind = registry.traits(launch.launcher) if launch is not None else None
        if launch is None or kind is None or kind.told is None:
            continue
        below.update(id(rank) for rank in ranks)
        yield Start(
            node=launcher.node,
            evidence=launcher.evidence,
            launcher=launcher,
            ranks=ranks,
            kind=kind.name,
            launch=launch,
            **structs.asdict(kind.told(launch)),
        )
    for rank in job.ranks:
        if id(rank) not in below:
            yield _by_hand(rank)


def same_node(one: NodeEvidence, other: NodeEvidence) -> bool:
    return (one.boot_id, one.network_namespace, one.host) == (other.boot_id, other.network_namespace, other.host)


def _by_hand(rank: Rank) -> Start:
    environment = rank.environment
    return Start(
        node=rank.node,
        evidence=rank.evidence,
        launcher=None,
        ranks=(rank,),
        kind="rank",
        world_size=number(environment.get("WORLD_SIZE")),
        node_rank=number(environment.get("NODE_RANK")),
        address=environment.get("MASTER_ADDR", "").strip(),
        port=number(environment.get("MASTER_PORT")) or 0,
        backend="env",
        run_id=environment.get("TORCHELASTIC_RUN_ID", ""),
    )


# ---------------------------------------------------------------- command lines


def launch_of(process: Process) -> LintLaunch | None:
    """What a process was started with, as lint understands it; None when it is no start of training."""
    return commands.launch_of(process.command, process.environment)


def own_words(node: NodeEvidence, process: Process) -> tuple[str, ...]:
    """The command line of a process, where it may be offered to be pasted: the reader's own, of a start of training,
    known whole (no argument cut off, no secret masked). Else ()."""
    words = process.command
    starts = commands.launcher(words) or (words and commands.is_python(commands.base(words[0])))
    if process.pid not in node.own or not starts:
        return ()
    return () if any(len(word) >= LONGEST_ARGUMENT or "***" in word for word in words) else words


def shown(process: Process) -> str:
    """A command line as evidence: what somebody else has written, cut; whoever shows it escapes it."""
    line = " ".join(process.command)
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}..."


def command_with(start: Start, **options: str) -> Command:
    """The start line of a launcher with other values of options (torchrun's names with underscores), to be pasted.

    `NONE` where the process is not the reader's own, where its line is not known whole, or where it is very long.
    """
    words = list(own_words(start.node, start.process))
    launch = start.launch
    if launch is None or not words:
        return NONE
    for option, value in options.items():
        canonical = start.spelled(option.replace("_", "-")).replace("_", "-")
        given = launch.options.get(canonical)
        if given is None or given.value is None or given.value.text is None:
            at = _after_launcher(words)
            words[at:at] = [f"--{canonical}", value]
            continue
        # the last one counts, as argparse takes it
        for index in range(len(words) - 1, -1, -1):
            if words[index] == f"{given.written}={given.value.text}":
                words[index] = f"{given.written}={value}"
                break
            if words[index] == given.written and words[index + 1 : index + 2] == [given.value.text]:
                words[index + 1] = value
                break
    line = command("{:arguments}", _shortened(words))
    return line if len(line) <= LONGEST_COMMAND else NONE


def _after_launcher(words: Sequence[str]) -> int:
    """Where another option of the launcher may stand."""
    for index, word in enumerate(words):
        launcher = registry.called([commands.base(word), *words[index + 1 :]])
        if launcher is not None or (
            launcher := registry.called(words[index:], 1, module=True) if word == "-m" else None
        ):
            return index + launcher.start
    return 1


def _shortened(words: list[str]) -> list[str]:
    """`python /opt/bin/torchrun ...`, as the kernel runs a script, as its user has typed it."""
    script = words[1] if len(words) > 1 else ""
    return words[1:] if script.rpartition("/")[2] in commands.process_names() else words


# ---------------------------------------------------------------- processes and sockets


def processes(job: HangJob) -> Iterator[tuple[NodeEvidence, ProcessEvidence, Rank | None]]:
    """Launchers and ranks with their nodes; helpers and data loaders have no sockets of the job's own."""
    for launcher in job.launchers:
        yield launcher.node, launcher.evidence, None
    for rank in job.ranks:
        yield rank.node, rank.evidence, rank


def pids(job: HangJob) -> set[tuple[str, int]]:
    """(node's name, pid) of all that belongs to the job."""
    own = {(node.host, evidence.pid) for node, evidence, _ in processes(job)}
    for rank in job.ranks:
        own.update((rank.node.host, data_loader.pid) for data_loader in (*rank.data_loaders, *rank.helpers))
    return own


def listens(job: HangJob, port: int) -> list[tuple[NodeEvidence, Socket]]:
    """Who listens on a port on the job's nodes, of the job or not; one entry a process.

    A listener whose owner could not be read (pid 0) is left out where the job's own process there has the port.
    """
    by_process: dict[tuple[str, int], tuple[NodeEvidence, Socket]] = {}
    for node, evidence, _ in processes(job):
        for socket in evidence.sockets:
            if socket.local_port == port and socket.state == "LISTEN":
                owned = structs.replace(socket, pid=socket.pid or evidence.pid)
                by_process.setdefault((node.host, owned.pid), (node, owned))
    held = {host for host, _ in by_process}
    for node in job.evidence.nodes:
        for socket in node.listeners:
            if socket.local_port == port and socket.state == "LISTEN" and (socket.pid or node.host not in held):
                by_process.setdefault((node.host, socket.pid), (node, socket))
    return list(by_process.values())


def seen(start: Start, text: str) -> Seen:
    return Seen(start.what, text)


def nodes_of(starts: Iterable[Start]) -> list[str]:
    return list(dict.fromkeys(start.where for start in starts))


def ranks_in(starts: Iterable[Start]) -> list[Rank]:
    return [rank for start in starts for rank in start.ranks]


def groups(starts: Iterable[Start], key: str) -> Mapping[object, list[Start]]:
    """By the value of a field, None left out; the most frequent first."""
    by_value: dict[object, list[Start]] = {}
    for start in starts:
        if (value := getattr(start, key)) is not None:
            by_value.setdefault(value, []).append(start)
    return dict(sorted(by_value.items(), key=lambda item: -len(item[1])))
