"""What is read of a job: the vocabulary between the nodes, a captured file, and the rules that conclude.

Everything here is plain data that survives JSON. What could not be read is in `unread` with its reason, and the field
that it would have filled is None or empty: a rule must never take an empty field for an answer without looking there.
"""

from typing import Literal

import msgspec
from msgspec import Struct, field, structs

from gpudoctor.errors import BadInput
from gpudoctor.named import HostName, InterfaceName, Pid, PidOrNone, told
from gpudoctor.snapshot.holds import AwaitedLock, CgroupMemory
from gpudoctor.snapshot.ras import Ras

SCHEMA = 1
"""Raised when a reader of older evidence would be misled."""


class Unread(Struct, frozen=True):
    """Something that was looked for and could not be read."""

    what: str
    """ "stack of pid 4711", "flight recorder of rank 3", "kernel log"."""
    reason: str
    """A phrase that a user can act on: "permission denied; run gpudoctor as user mara or as root"."""
    pid: PidOrNone = 0
    """The process that it is about; 0: the node."""
    user: str = ""
    """Whose process it is, where that is no process of the job that was asked for."""


# ---------------------------------------------------------------- first look: which processes are there


class Process(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A process that belongs to a distributed job, or may: a rank, a launcher, a data loader worker."""

    pid: Pid
    parent: PidOrNone
    started: int
    """Clock ticks after boot; with pid and boot id it names a process for good."""
    age_seconds: float = 0.0
    state: str = ""
    """ /proc's letter: "R", "S", "D" (waits in the kernel), "T" (stopped), "t" (traced), "Z" (ended, not collected)."""
    exit_code: int = 0
    """Of state Z, as waitpid(2) gives it."""
    name: str = ""
    command: tuple[str, ...] = ()
    """Its arguments, each at most 512 characters, secrets masked."""
    user_id: int = -1
    user: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    """Of the environment at its start: names on `knowledge.environment`'s list (ranks, launchers, NCCL, torch)."""
    environment_read: bool = False
    network_namespace: str = ""
    """ "net:[4026531840]"."""
    cgroup: str = ""
    container: str = ""
    """ "docker 3f2a91c0d7e4": the engine, and its own name for the container; empty outside of one, and in ours."""
    communicates: bool | None = None
    """It has a TCP socket that its parent has not, and that listens or connects without an answer, as a rank has from
    its rendezvous on. Looked at only where a script may have started its ranks itself; None: not looked at."""
    alone: bool = False
    """Asked for by its number though nothing says that it is a rank: a program without others."""


class NodeProcesses(Struct, frozen=True, kw_only=True):
    """The first look at a node."""

    hostname: HostName
    boot_id: str = ""
    network_namespace: str = ""
    """Of the agent itself."""
    time: float = 0.0
    """time.time() of the node when it answered."""
    processes: tuple[Process, ...] = ()
    unread: tuple[Unread, ...] = ()


# ---------------------------------------------------------------- second look: what they do


class Frame(Struct, frozen=True, omit_defaults=True):
    """A frame of a Python stack, or of a native one."""

    function: str
    file: str = ""
    """As the process names it: a path, "<string>", "<frozen importlib>", a shared library for a native frame."""
    line: int = 0
    native: bool = False


class Thread(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A thread at one moment. The process's main thread has `id` equal to the pid."""

    id: int
    """The kernel's number (gettid); where only faulthandler told of it, Python's (get_ident), which is larger."""
    name: str = ""
    """Python's name where it has one ("MainThread"), else the kernel's ("pt_autograd_0")."""
    state: str = ""
    cpu_seconds: float | None = None
    """Used since the thread began."""
    delayed_seconds: float | None = None
    """Spent since then ready to run, while others had the processors."""
    switches: int | None = None
    """Context switches, voluntary and not: one that has none between two looks has not run."""
    waits_in: str = ""
    """wchan: the kernel function that it sleeps in ("futex_do_wait", "hrtimer_nanosleep", "pipe_read")."""
    syscall: str = ""
    """Name and arguments of the system call that it is in, where readable: "read(3, ...)"."""
    owns_gil: bool | None = None
    """None: not told."""
    frames: tuple[Frame, ...] = ()
    """Innermost first; () where the thread runs no Python or was not read."""


class FrameVariables(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Its variables that hold numbers, a truth or text, a type of torch's or a tensor: no others are kept."""

    frame: Frame
    values: dict[str, str] = field(default_factory=dict)
    """ "4", "0.5", "True", "{0: 8, 1: 6}", "bfloat16", "float32[512, 1024]", "text 3fa" of any text, by name."""


class Sample(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A process at one moment."""

    at: float
    """Seconds after the first sample began on this node."""
    state: str = ""
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    """/proc/PID/io rchar: bytes asked for by read calls of any kind."""
    written_bytes: int | None = None
    threads: tuple[Thread, ...] = ()
    stacks_by: str = ""
    """ "py-spy", "faulthandler", "worker server"; empty: no stacks."""


class Socket(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A TCP socket of a process, or a listener of its node."""

    state: str
    """ "LISTEN", "SYN_SENT", "ESTABLISHED", "CLOSE_WAIT", "FIN_WAIT2", ... as in <net/tcp_states.h>."""
    local: HostName
    local_port: int
    remote: HostName = ""
    remote_port: int = 0
    unsent_bytes: int = 0
    """Queued or not acknowledged: stays above zero where packets are dropped."""
    unread_bytes: int = 0
    retransmits: int = 0
    pid: PidOrNone = 0
    """Whose it is; 0: not known (another user's)."""
    process: str = ""
    """That process's name."""


class Enclosing(Struct, frozen=True, omit_defaults=True):
    """A statement of the user's program around a line, or one that leaves the loop around it."""

    kind: str
    """ "if", "else", "elif", "for", "while", "try", "except", "finally", "with", "function", "cache" (above a function:
    its result is remembered); of the exits: "continue", "break", "return", "pass" (a swallowed exception)."""
    line: int
    text: str = ""
    """Its condition or target, string constants blanked: "rank == 0", "batch in loader", "Exception"."""
    asks: str = ""
    """Of a condition on the rank, whatever its names are: what it asks, followed through the file ("rank == 0" for
    "self.is_chief()"), with "something" for the rest of it. Empty where that was not followed, or it asks for none."""
    gives: tuple[str, ...] = ()
    """What a call of a collective, or of what makes it, is given; a function's parameters; what a loop yields."""
    root: tuple[str, ...] = ()
    """Of these: the variables from which the collective's root is taken."""
    counter: str = ""
    """Of a loop: a variable that each of its rounds raises by one, in a statement of its own."""
    counted_at: int = 0
    """That statement's line."""


class SourceContext(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the user's program says around a frame, read from its file where that is readable."""

    file: str
    line: int
    function: str = ""
    text: str = ""
    """The line itself, string constants blanked."""
    enclosing: tuple[Enclosing, ...] = ()
    """Innermost first, up to the function."""
    exits: tuple[Enclosing, ...] = ()
    """`continue`, `break`, `return`, swallowed exceptions in the same loop or function that pass this line by; the text
    is the condition that guards each."""
    outer_exits: tuple[Enclosing, ...] = ()
    """`break` and `return` of the loops further out around the line, beside the innermost one; told in the same way."""
    calls: tuple[Enclosing, ...] = ()
    """Calls of collectives in the same function: kind is the name ("all_reduce", "barrier"), text the innermost
    condition that guards it ("" for none)."""
    leads_to: tuple[Enclosing, ...] = ()
    """Calls in it of the file's own functions that make collectives, told in the same way by the first of these."""
    gradients: tuple[Enclosing, ...] = ()
    """Calls in it of the file's own functions that call backward at one line: kind is the function, text that line."""
    forwards: tuple[Enclosing, ...] = ()
    """Calls in it of a model, or of what calls the model that it is given, under a condition on the rank."""
    handlers: tuple[str, ...] = ()
    """Functions of the file that it makes handlers of signals."""
    stores: tuple[str, ...] = ()
    """Names to which the file gives a store of torch.distributed."""
    ends_loops: tuple[str, ...] = ()
    """What the file sets or returns to ask a framework's loop to end, and in which line: "should_stop:12"."""
    by_threads: tuple[Enclosing, ...] = ()
    """What its functions set that it hands to threads: kind is the name ("self.ready"), text the function."""
    hooks: tuple[Enclosing, ...] = ()  # what leaves early a function by which it has DDP exchange gradients
    groups: tuple[str, ...] = ()
    """Names to which it gives a process group whose members it writes down: "pair=0,1"."""
    unwritten: tuple[str, ...] = ()  # methods that make collectives and that Python calls unwritten: "__len__"
    awaits: tuple[Enclosing, ...] = ()
    """Where what it runs in an event loop can only stand, outermost first: kind is the function."""
    behind: tuple[Enclosing, ...] = ()
    """What is called on the way here from the last collective of ranks that did not come, as `knowledge.on_the_way`."""
    objects: tuple[Enclosing, ...] = ()
    """What decides what the objects that it calls do: kind is "made", "told", "asked", "handed" or "left"."""
    installed: bool = False
    """It is no file of the program, but of a package that lies outside of site-packages."""


# ---------------------------------------------------------------- the communication layer


class Collective(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of a flight recorder."""

    group: str
    """Key of the process group: its name ("0", "default_pg" is normalised to "0")."""
    sequence: int
    """collective_seq_id: the number of this collective in its group on this rank."""
    operation: str
    """ "all_reduce", "all_gather", "send", "recv", ...: without the backend."""
    point_to_point: bool = False
    peer: int | None = None
    nth: int = -1
    """Of a send or receive: so many of its kind to this peer its dump has before it."""
    state: Literal["scheduled", "started", "completed"] = "scheduled"
    """Normalised: gloo's entries that are retired count as completed."""
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    """Innermost first, without torch's own; () where the recorder keeps none."""
    created_ns: int = 0
    timeout_ms: int = 0


class Group(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A process group as one rank's recorder knows it."""

    key: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    """Global ranks; () where the recorder does not say (gloo's default group: all)."""
    last_enqueued: int = -1
    last_completed: int = -1


class Recorder(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one rank's flight recorder holds, cut down to what decides."""

    source: str
    """The file, or "worker server of pid 4711", "dump pipe /tmp/x3.pipe"."""
    rank: int | None = None
    version: str = ""
    backend: str = ""
    written_at: float = 0.0
    """The file's modification time, seconds; 0: asked for now."""
    dumped_at: float = 0.0
    """When the process wrote it, of one that was asked for now; 0: not told."""
    groups: tuple[Group, ...] = ()
    entries: tuple[Collective, ...] = ()
    """In the order of the recorder: of each group the last 64, and what has not completed before them. Only the last
    ones have frames."""
    total: int = 0  # how many entries the dump had
    forgotten: int = 0
    """How many older ones its ring buffer had overwritten by then."""
    only_active: bool = False
    """What had ended was left out of the dump (TORCH_INCLUDE_ONLY_ACTIVE), as gaps between its entries show."""


# ---------------------------------------------------------------- a process, a node, all


class ProcessEvidence(Struct, frozen=True, omit_defaults=True, kw_only=True):
    process: Process
    samples: tuple[Sample, ...] = ()
    """Two, a few seconds apart; one where it ended meanwhile; none where it was gone."""
    sockets: tuple[Socket, ...] = ()
    sources: tuple[SourceContext, ...] = ()
    """Of the user's frames of its main thread, in the last sample, and of the lines that its flight recorder names."""
    recorder: Recorder | None = None
    libraries: dict[str, str] = field(default_factory=dict)
    """ "libnccl.so.2", "libtorch_cpu.so", "libnccl-net.so" -> path of what it has loaded (maps)."""
    versions: dict[str, str] = field(default_factory=dict)  # "torch", "nccl", read from those files
    open_files: tuple[str, ...] = ()
    """Regular files, FIFOs and devices that it has open, not libraries; at most 64."""
    locked_files: tuple[str, ...] = ()
    """Those of `open_files` on which it holds a lock."""
    awaited_lock: AwaitedLock | None = None
    output_files: tuple[str, ...] = ()
    """Where its standard output and error go, when that is a file."""
    resident_bytes: int | None = None
    limits: dict[str, str] = field(default_factory=dict)
    """ "memlock", "nofile" -> soft limit as in /proc/PID/limits."""
    oom_kills: int | None = None
    """memory.events oom_kill of its cgroup."""
    memory: CgroupMemory | None = None
    frozen: str = ""
    """The file that thaws the cgroup that is frozen (docker pause), and it with it; empty where none is."""
    armed: bool = False  # gpudoctor.arm() runs in it
    variables: tuple[FrameVariables, ...] = ()
    """Of the program's frames of its main thread in the last sample, innermost first; () where they were not read."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def state(self) -> str:
        """/proc's letter in the last sample; "F", which is ours, for one that is frozen: /proc says S or D of it."""
        if self.frozen:
            return "F"
        return self.samples[-1].state if self.samples else self.process.state


class KernelEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    kind: Literal["oom", "xid", "segfault"]
    text: str
    pid: PidOrNone = 0
    seconds_ago: float | None = None


class ConnectionAttempt(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of a connection from this node to an address that the job names."""

    address: str
    port: int
    outcome: str
    """ "connected", "refused", "no answer", "unreachable", "unresolvable"."""
    detail: str = ""


class NodeInterface(Struct, frozen=True, omit_defaults=True):
    name: InterfaceName
    addresses: tuple[HostName, ...] = ()
    up: bool = True


class GpuUse(Struct, frozen=True, omit_defaults=True, kw_only=True):
    index: int
    uuid: str = ""
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    power_watts: float | None = None
    clock_mhz: int | None = None
    """Of its multiprocessors; `most_mhz` is the highest that it has."""
    most_mhz: int | None = None
    clock_events: int | None = None
    """Why it does not run at that: bits of `knowledge.gpus.clock_events`."""
    memory_bytes: int | None = None
    memory_total_bytes: int | None = None
    pids: tuple[PidOrNone, ...] = ()
    lost: str = ""
    """Why it does not answer; empty when it does."""


class NodeEvidence(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The second look at a node."""

    name: HostName = ""
    """As the fleet names it."""
    hostname: HostName = ""
    boot_id: str = ""
    network_namespace: str = ""
    time: float = 0.0
    clock_offset_seconds: float | None = None
    """Of this node's clock against the head's, half a round trip exact; filled in by the head."""
    processes: tuple[ProcessEvidence, ...] = ()
    own: tuple[Pid, ...] = ()
    """Processes that nobody but the reader's own user has started. Known live only: a file may say anything."""
    listeners: tuple[Socket, ...] = ()
    """LISTEN on the ports that the job names, of whichever process."""
    reached: tuple[ConnectionAttempt, ...] = ()
    interfaces: tuple[NodeInterface, ...] = ()
    resolved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that the job uses, and its own host name -> addresses; () where it does not resolve."""
    kernel: tuple[KernelEvent, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    ras: tuple[Ras, ...] = ()  # two polls, or none
    unread: tuple[Unread, ...] = ()

    @property
    def host(self) -> str:  # what it is called in messages
        return self.name or self.hostname or "this node"


KIND = "gpudoctor hang evidence"


class Evidence(Struct, frozen=True, kw_only=True):
    """All that was read, of all nodes: what `gpudoctor capture --pid` writes and `hang --from` reads."""

    schema: int = SCHEMA
    kind: Literal["gpudoctor hang evidence"] = "gpudoctor hang evidence"
    gpudoctor: str = ""
    time: float = 0.0
    nodes: tuple[NodeEvidence, ...] = ()
    lost: dict[HostName, str] = field(default_factory=dict)
    """Nodes that could not be asked -> why."""
    dumps: tuple[Recorder, ...] = ()
    """Flight recorders of --dumps, which belong to no process that was seen."""
    sources: tuple[SourceContext, ...] = ()
    unread: tuple[Unread, ...] = ()
    quiet_seconds: float | None = None
    """For so long no rank has begun a collective, as who was there has seen: `gpudoctor run`. None: nobody was."""


def to_json(evidence: Evidence) -> bytes:
    return msgspec.json.format(msgspec.json.encode(evidence), indent=1)


class UnreadableEvidence(BadInput):
    """The text says what is wrong with the file."""


class _Head(Struct):  # what every file of evidence says, and no other JSON does
    schema: int
    kind: str


def from_json(raw: bytes) -> Evidence:
    """Raises `UnreadableEvidence`."""
    try:
        if msgspec.json.decode(raw, type=_Head).kind != KIND:
            raise UnreadableEvidence("it is something else of gpudoctor's")
        evidence = msgspec.json.decode(raw, type=Evidence)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableEvidence(told(error, raw) if isinstance(error, msgspec.DecodeError) else str(error)) from None
    if evidence.schema > SCHEMA:
        raise UnreadableEvidence(f"it has schema {evidence.schema}; this gpudoctor reads up to {SCHEMA}")
    return structs.replace(evidence, nodes=tuple(structs.replace(node, own=()) for node in evidence.nodes))
