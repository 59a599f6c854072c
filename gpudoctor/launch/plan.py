"""What is to be started, decided once: every emitter says the same plan in its framework's words."""

from typing import Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from gpudoctor.command import NONE, Command
from gpudoctor.errors import BadInput

Precision = Literal["", "fp32", "fp16", "bf16"]


class LaunchWish(Struct, frozen=True, kw_only=True):
    """The options of `gpudoctor launch`, checked. 0 and "" mean: not said."""

    framework: str = "torchrun"
    """The name of a launcher's file that can be written."""
    nodes: int = 0
    gpus_per_node: int = 0
    hosts: tuple[str, ...] = ()
    """Names in node-rank order, when they are known."""
    master_address: str = ""
    master_port: int = 0
    strategy: str = ""
    precision: Precision = ""
    python: str = ""
    elastic: tuple[int, int] | None = None
    program: tuple[str, ...] = ()
    """The script (or `-m`, module) and its arguments, as words; none: train.py stands for it."""
    framework_version: str = ""
    """--framework-version: as if this version were installed."""


class EnvVariable(Struct, frozen=True):
    """An environment variable, with its reason, which becomes a comment."""

    name: str
    value: str
    reason: str = ""


class NodePlan(Struct, frozen=True, kw_only=True):
    """One node. A name or address that nobody knows yet is a placeholder in capitals that the emission explains."""

    rank: int
    name: str
    address: str
    processes: int
    """Ranks on it: its visible GPUs, or what was wished."""
    environment: tuple[EnvVariable, ...] = ()
    """Only what this node needs by itself (CUDA_VISIBLE_DEVICES, an interface of another name)."""
    known: bool = True
    """False: `name` and `address` are placeholders, "NODE1" and "NODE1_ADDRESS"."""
    guessed: tuple[str, ...] = ()
    """Variables whose values name devices of other nodes, for this one was not looked at."""


class Unverified(Struct, frozen=True):
    """Something that the plan takes for true without having seen it, and the command that would show it."""

    claim: str
    command: Command = NONE


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """The start of one job."""

    framework: str
    nodes: tuple[NodePlan, ...]
    master_address: str
    """An address (static rendezvous needs no resolver), as the other nodes reach it."""
    master_name: str = ""
    """The head's own host name, which c10d compares with; empty when it is not known."""
    master_port: int
    program: tuple[str, ...]
    python: str = "python"
    """The training interpreter as it is to be written."""
    interpreter: str = ""
    """The same by its path, for launchers whose remote shells have another PATH; empty where it is not known."""
    strategy: str = ""
    precision: Precision = ""
    elastic: tuple[int, int] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    """Installed distributions that matter: "torch" -> "2.13.0", "lightning" -> "2.6.6", "accelerate" ..."""
    environment: tuple[EnvVariable, ...] = ()
    """The same on every node: OMP_NUM_THREADS, NCCL_* that `gpudoctor env` finds for all of them."""
    cpus_per_process: int = 0
    """0: not known."""
    why: dict[str, str] = field(default_factory=dict)
    """Reasons by field: "master_address" -> "eth0's address, by which the default route leads"."""
    unverified: tuple[Unverified, ...] = ()
    accelerator: Literal["cuda", "cpu"] = "cuda"
    """What the ranks compute on."""
    as_root: bool = False
    """Whether root will paste it: mpirun wants that said."""
    hosts_named: bool = False
    """Whether the user (or the allocation) named the nodes, so that a batch script may ask for these."""
    exported: tuple[str, ...] = ("PATH",)
    """Variables of this shell that ranks elsewhere need too, where the launcher hands on only what it is told."""
    leftovers: tuple[str, ...] = ()
    """Variables of an earlier job in this shell (LOCAL_RANK, WORLD_SIZE ...) that the launch must not inherit."""

    world_size: int = 0
    """Follows from the nodes."""

    def __post_init__(self) -> None:
        force_setattr(self, "world_size", sum(node.processes for node in self.nodes))


class PasteBlock(Struct, frozen=True):
    """Lines to paste in one place."""

    title: str
    """ "on n01 (node rank 0)", "on every node", "on the head only"."""
    text: str
    node: int | None = None
    """The node rank that it is for; None: the title tells."""


class EmittedFile(Struct, frozen=True):
    """A file to write (with -o) or to copy from the output."""

    name: str
    text: str
    executable: bool = False
    alternative: bool = False
    """Another way to say the same: written with -o and named in the notes, but not on standard output."""


class Emission(Struct, frozen=True, kw_only=True):
    """What an emitter hands over. Comments with the reasons are inside the texts, in the syntax of each."""

    blocks: tuple[PasteBlock, ...] = ()
    files: tuple[EmittedFile, ...] = ()
    code: str = ""
    """Python lines that belong into the training script (Trainer(...), the spawn wrapper)."""
    notes: tuple[str, ...] = ()
    """What replaces something old, what to know: sentences."""


class CannotEmit(BadInput):
    """This plan cannot be said in this framework; the message is one line for the user, with what to do instead."""
