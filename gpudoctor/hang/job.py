"""One job as the rules see it: its ranks over all nodes, where each is, what its flight recorders agree on."""

from msgspec import Struct

from gpudoctor.hang.recorders import Agreement
from gpudoctor.knowledge.places import Place
from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, Process, ProcessEvidence


class JobMember(Struct, frozen=True, kw_only=True):
    """A process of a job, and what it is there."""

    node: int
    """Index of the node in `Evidence.nodes`, or of `NodeProcesses` in the first look."""
    process: Process
    role: str
    """ "rank", "launcher" (torchrun, srun, mpirun, accelerate, deepspeed, and a script that spawns its ranks),
    "data loader", "helper"."""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    of: int = 0
    """pid of the rank or launcher that it belongs to, for a data loader or helper."""


class Members(Struct, frozen=True, kw_only=True):
    """The processes of one job."""

    id: str
    """As `JobReport.id`."""
    user: str = ""
    """Whose they all are, as `users.Users.of` says."""
    members: tuple[JobMember, ...]
    master_address: str = ""
    master_port: int = 0
    slurm_job: str = ""


class Rank(Struct, frozen=True, kw_only=True):
    """A rank that was seen."""

    rank: int
    local_rank: int | None
    world_size: int | None
    node: NodeEvidence
    evidence: ProcessEvidence
    place: Place
    """Of its main thread in the last sample."""
    first_place: Place
    """Of its main thread in the first sample."""
    moved: bool | None
    """`places.moved` of its samples."""
    acting: int = 0
    """The thread of which place and movement are told, where the main one waits for what it does; else 0."""
    data_loaders: tuple[ProcessEvidence, ...] = ()
    helpers: tuple[ProcessEvidence, ...] = ()

    @property
    def pid(self) -> int:
        return self.evidence.pid

    @property
    def thread(self) -> int:
        """The thread whose place and movement are the rank's."""
        return self.acting or self.evidence.pid

    @property
    def state(self) -> str:
        """/proc's letter in the last sample."""
        return self.evidence.state

    @property
    def environment(self) -> dict[str, str]:
        return self.evidence.process.environment


class Launcher(Struct, frozen=True, kw_only=True):
    node: NodeEvidence
    evidence: ProcessEvidence
    kind: str
    """ "torchrun", "accelerate", "deepspeed", "srun", "mpirun", "script"."""
    place: Place
    moved: bool | None
    ranks: tuple[int, ...] = ()
    """Of the ranks below it."""


class HangJob(Struct, frozen=True, kw_only=True):
    id: str
    user: str = ""
    """As `Members.user`."""
    evidence: Evidence
    """All of it: nodes without a rank matter too."""
    world_size: int
    """As most of its ranks, else its launchers' options, say; 0 when nothing does."""
    master_address: str = ""
    master_port: int = 0
    ranks: tuple[Rank, ...] = ()
    """Those that were seen, by rank; a rank that two processes claim is there twice."""
    launchers: tuple[Launcher, ...] = ()
    nodes: tuple[NodeEvidence, ...] = ()
    """Nodes with a process of it."""
    agreement: Agreement | None = None
    """What the flight recorders say together; None when there is none."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks below `world_size` that no process was seen of."""
        seen = {rank.rank for rank in self.ranks}
        return tuple(number for number in range(self.world_size) if number not in seen)
