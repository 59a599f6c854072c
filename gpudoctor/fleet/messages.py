"""What the head and its agents say to each other: orders and replies, one JSON object a line.

Every order is sent to all agents; `to` names the node indices that it is meant for (empty: all). That is what srun
can carry (its standard input goes to every task), and the others do it the same way. An order with `number` is
answered by replies that repeat the number, so that an answer that comes late is not taken for that of the next order.

Replies are marked (`gpudoctor.marked.MARK`), for what carries them may say something of its own: a login's banner, a
shell's start-up files. Orders are not: nobody but the head writes to an agent.
"""

from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, field

from gpudoctor.marked import MARK
from gpudoctor.named import HostName, PidOrNone
from gpudoctor.read.job.wanted import Wanted

T = TypeVar("T")

PROTOCOL = 1
"""Number of this vocabulary; head and agents must have the same."""

MAXIMUM_LINE_BYTES = 32 * 1024 * 1024
"""Longer lines end the connection: no snapshot or log is as long."""

# ---------------------------------------------------------------- a run of ranks


class Measurement(Struct, frozen=True):
    """One collective at one size: nccl-tests' size column, total bytes for gather and scatter kinds."""

    collective: str
    """ "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all" or "send_recv"."""
    size_bytes: int


class TrainCell(Struct, frozen=True):
    """One way of training with one precision (`gpudoctor train-test`)."""

    way: str
    """A name of train/ways.py: "ddp", "fsdp", "spawn", ..."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"


class TrainPlan(Struct, frozen=True, kw_only=True):
    """What the ranks of a launch train, one cell after the other, instead of measuring collectives."""

    cells: tuple[TrainCell, ...]
    steps: int = 20
    batch: int = 8
    """Samples of the global batch that each rank gets in a step."""
    seed: int = 20
    world_size: int = 2
    """Processes that a way which starts them by itself (spawn, lightning ddp_spawn) starts; devices of split and dp."""


class Outer(Struct, frozen=True):
    """The world of the user's own srun or torchrun, of which a launch is the part of one process (symmetric mode)."""

    nodes: int = 1
    node_rank: int = 0
    is_rank: bool = False
    """That launcher has made the process a rank already, as its environment says: no torchrun is started."""


WARMUP = 5
ITERATIONS = 20
"""Untimed and timed operations of a size, as nccl-tests has them."""


class Launch(Struct, frozen=True):
    """One torchrun on each of `nodes`, together one world, which measures and ends."""

    id: str
    nodes: tuple[int, ...]
    """Fleet indices in the order of their node rank: nodes[0] is the head of this world."""
    ranks_per_node: tuple[int, ...]
    """One number a node; they may differ."""
    master_address: str
    master_port: int
    backend: Literal["nccl", "gloo"]
    device: Literal["cuda", "cpu"]
    measurements: tuple[Measurement, ...]
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    warmup: int = WARMUP
    iterations: int = ITERATIONS
    repeats: int = 3
    """Windows a size; their median is reported."""
    check: bool = True
    """Compare every element with what it must be, outside the measured window."""
    seconds_per_size: float = 0.0
    """Fewer iterations (at least 2, and 1 to warm up) where a size would take longer than this; 0: never.

    In any case no window takes more than half of `timeout`: NCCL's clock runs from the moment an operation is queued.
    """
    environment: dict[str, str] = field(default_factory=dict)
    """Set for the ranks, on top of the agent's environment. Only names on `messages.may_set`."""
    timeout: float = 60.0
    """Seconds that a rank may spend in one phase: handed to torch as the process group's timeout."""
    rank_logs: bool = True
    """NCCL_DEBUG=INFO into memory, unless the user's environment sets NCCL_DEBUG_FILE."""
    outer: Outer | None = None
    train: TrainPlan | None = None
    """Train these (workers/train.py) instead of measuring collectives (workers/collective.py)."""
    ranks_share_gpu: bool = False
    """All ranks of a node use its first GPU, each with an NCCL_HOSTID of its own: for tests of the real NCCL path on
    one GPU. What is measured so says nothing of the hardware."""


SETTABLE = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "TORCH_DISTRIBUTED_",
    "GLOO_",
    "TP_",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)


def may_set(name: str) -> bool:
    """Whether an order may set this variable for the ranks: settings of training, and no others by oversight.

    Some of them name libraries to load (NCCL_NET_PLUGIN), and `Run` names the interpreter: who has ssh access is this
    node's user. The head of a join test is not, and `orders.of_a_guest` keeps such values from a node that joined.
    """
    return name.startswith(SETTABLE) and name.replace("_", "").isalnum() and name.isascii()


# ---------------------------------------------------------------- orders


class Order(Struct, frozen=True, kw_only=True, tag=True):
    """Head to agents."""

    number: int = 0
    to: tuple[int, ...] = ()


class Ping(Order, frozen=True, kw_only=True):
    """Answered at once by `Pong`; also what keeps an agent alive."""


class Examine(Order, frozen=True, kw_only=True):
    """Read the machine; answered by `Examined`."""

    torch: bool = False
    """Import torch in the training interpreter (seconds), or only look at its files."""
    python: str = ""
    """The training interpreter; empty, or missing on that node: the node chooses as `gpudoctor check` would."""
    brief: bool = True
    """Only what a preflight asks for (host, network, GPUs, torch's files), not what takes longer. Not with `torch`."""
    timeout: float = 10.0
    resolve: tuple[str, ...] = ()
    """Names to look up besides: the head's address, the other nodes' names."""
    files: tuple[str, ...] = ()
    """Paths to look at besides; a name without a slash is looked for on the PATH."""


class Listen(Order, frozen=True, kw_only=True):
    """Open listeners that answer a probe: one on a port of the kernel's choice, and on `port` when it is not 0."""

    port: int = 0
    """Only the nodes in `port_on` open it."""
    port_on: tuple[int, ...] = ()
    secret: str = ""
    """What the listeners answer with (see `Reach`); the rendezvous port answers with the same."""
    seconds: float = 30.0
    """Closed after this long by themselves."""


class Target(Struct, frozen=True):
    """Something to connect to: another node's listener."""

    node: int
    address: str
    port: int
    purpose: Literal["rendezvous", "ephemeral", "knock"] = "ephemeral"
    """ "knock": a port that is somebody else's. It is connected to, and nothing is said."""


class Reach(Order, frozen=True, kw_only=True):
    """Connect to the targets of this node, all at once; prove who answers; send enough to fill a window."""

    targets: dict[str, tuple[Target, ...]] = field(default_factory=dict)
    """By the connecting node's index, as text (JSON knows no other keys)."""
    listeners: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Address and ephemeral port of each node, by index as text: for many nodes shorter than `targets`."""
    peers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Whose `listeners` each node connects to besides, by its index as text."""
    rendezvous: Target | None = None
    """What every node that has `peers` connects to besides."""
    secret: str = ""
    """What a listener's answer must contain: a port that somebody else answers on is not reached."""
    timeout: float = 2.0
    payload_bytes: int = 65536


class Unlisten(Order, frozen=True, kw_only=True):
    """Close the listeners."""


class Run(Order, frozen=True, kw_only=True):
    """Start the ranks of a launch on this node; answered by `Said` as they go and by `Ended` once."""

    launch: Launch
    python: str = ""


class Stop(Order, frozen=True, kw_only=True):
    """Collect evidence from the ranks of a launch (phase, stack, log), end them, answer `Ended`."""

    launch: str
    evidence: bool = True


class FindRanks(Order, frozen=True, kw_only=True):
    """List the processes that belong to distributed jobs; answered by `RanksFound`."""

    alone: int = 0
    """A Python that is told also where it belongs to none; 0: no such one is asked for."""


class LookAt(Order, frozen=True, kw_only=True):
    """Read these processes twice, without stopping them; answered by `LookedAt`."""

    wanted: Wanted = field(default_factory=Wanted)


class Watch(Order, frozen=True, kw_only=True):
    """Look at the processes of `wanted.pids` once a second for `wanted.seconds`, then ask the recorders of
    `wanted.ranks` when each collective was issued; answered by `Watched`."""

    wanted: Wanted = field(default_factory=Wanted)


class Bye(Order, frozen=True, kw_only=True):
    """End everything and exit."""


AnyOrder = Ping | Examine | Listen | Reach | Unlisten | Run | Stop | FindRanks | LookAt | Watch | Bye

# ---------------------------------------------------------------- replies


class Reply(Struct, frozen=True, kw_only=True, tag=True):
    """Agent to head."""

    number: int = 0


class Hello(Reply, frozen=True, kw_only=True):
    """The first line of an agent."""

    node: int
    hostname: HostName
    gpudoctor: str
    protocol: int = PROTOCOL
    python_version: str = ""
    pid: PidOrNone = 0
    user: str = ""


class Pong(Reply, frozen=True, kw_only=True):
    time: float
    """time.time() of the node, seconds."""


class Examined(Reply, frozen=True, kw_only=True):
    snapshot: msgspec.Raw
    """A `snapshot.Snapshot`, decoded by whoever wants it."""
    resolved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name -> addresses; () when it does not resolve. A name that is missing got no answer in time."""
    interpreter: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """What was asked for in `Examine.files` -> "file", "folder", "unreadable" or "missing". What is missing here got no
    answer in time."""


class Listening(Reply, frozen=True, kw_only=True):
    ephemeral: int = 0
    """The port that the kernel chose; 0 when none could be opened."""
    port_error: str = ""
    """Why `port` could not be opened: "in use by pid 123 python", "permission denied"; empty when it could."""
    error: str = ""


class Touched(Struct, frozen=True):
    """What became of one connection.

    connected: the right listener answered, and the payload went both ways.
    truncated: it answered, but the payload did not arrive: large packets are lost (MTU).
    """

    target: Target
    outcome: Literal["connected", "truncated", "refused", "no answer", "unreachable", "wrong listener", "failed"]
    detail: str = ""
    milliseconds: float = 0.0


class Reached(Reply, frozen=True, kw_only=True):
    touched: tuple[Touched, ...]


class Said(Reply, frozen=True, kw_only=True):
    """A line of a rank that the head wants at once: its row, its phase (the lowest local rank's only), its error."""

    launch: str
    rank: int
    message: msgspec.Raw
    """One of the rank program's messages (nccl/rank_messages.py)."""


class RankState(Struct, frozen=True, kw_only=True):
    """Where a rank was when its launch ended."""

    rank: int
    local_rank: int
    pid: PidOrNone
    phase: str = ""
    """Its last phase: "import torch", "rendezvous", "first all_reduce", "all_reduce of 1048576 bytes", "done"."""
    seconds_in_phase: float = 0.0
    ended: Literal["", "done", "exit", "signal"] = ""
    """Empty: still there when it was asked for (then ended by us)."""
    status: int = 0
    """The exit status, or the signal's number."""
    error: str = ""
    """The exception that ended it, or the end of its standard error."""
    log: str = ""
    """NCCL's log, the decisive part (at most 256 KiB)."""


class Ended(Reply, frozen=True, kw_only=True):
    """The launch is over on this node, and no process of it is left."""

    launch: str
    how: Literal["done", "failed", "stopped", "not started"]
    ranks: tuple[RankState, ...] = ()
    error: str = ""
    """torchrun's own failure, as the end of its standard error; or why it was not started."""
    evidence: msgspec.Raw = msgspec.Raw(b"null")
    """A `snapshot.evidence.NodeEvidence` or null: torchrun and the ranks as they were before anything was ended, where
    that was asked for, and the ranks that a signal had ended."""


class RanksFound(Reply, frozen=True, kw_only=True):
    found: msgspec.Raw
    """A `snapshot.evidence.NodeProcesses`."""


class LookedAt(Reply, frozen=True, kw_only=True):
    evidence: msgspec.Raw
    """A `snapshot.evidence.NodeEvidence`."""


class Watched(Reply, frozen=True, kw_only=True):
    pace: msgspec.Raw
    """A `snapshot.pace.NodePace`."""


class OrderFailed(Reply, frozen=True, kw_only=True):
    """The agent could not do what was ordered; `Fleet.ask` gives it as `Lost("gpudoctor failed")`."""

    error: str


AnyReply = Hello | Pong | Examined | Listening | Reached | Said | Ended | RanksFound | LookedAt | Watched | OrderFailed

_orders: msgspec.json.Decoder[AnyOrder] = msgspec.json.Decoder(AnyOrder)
_replies: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)


class Garbled(Exception):
    """A line that is no message; the text says what is wrong with it."""


def encode(message: Order | Reply) -> bytes:
    """A message as one line; a reply is marked."""
    mark = MARK if isinstance(message, Reply) else b""
    return mark + msgspec.json.encode(message) + b"\n"


def order_from(line: bytes) -> AnyOrder:
    """Decode the head's line. Raises `Garbled`."""
    return _decode(_orders, line)


def reply_from(line: bytes) -> AnyReply:
    """Decode an agent's line; whatever stands before the mark is passed over. Raises `Garbled`."""
    before, mark, message = line.partition(MARK)
    if not mark:
        raise Garbled(f"no reply of an agent: {before[:80]!r}")
    return _decode(_replies, message)


def _decode(decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(f"{error}: {line[:80]!r}") from None
