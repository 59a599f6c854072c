"""What was read from one machine, as frozen typed data, to and from JSON.

A `Snapshot` is made once by `gpudoctor.read.machine` (or from a file) and only looked at afterwards: checks are
pure functions over it, so a saved snapshot gives the same verdict anywhere. Every fact is a `Reading`; the
default of each is "not in this snapshot", so a partial snapshot leads to skipped checks, never to green ones.

Units stand in the names (bytes, watts, celsius, mhz, seconds). Numbers that NVML gives keep NVML's meaning.
"""

import msgspec
from msgspec import Struct

from gpudoctor.errors import BadInput
from gpudoctor.named import VariableName, Version, told
from gpudoctor.snapshot.accelerators import DRIVER_NOT_TOLD, Accelerators, DeviceNode, PciDevice
from gpudoctor.snapshot.changes import Change, ChangeKind
from gpudoctor.snapshot.expected import Expectation
from gpudoctor.snapshot.host import (
    AcsBridge,
    Cgroup,
    Host,
    KernelLog,
    Limits,
    LinkLimit,
    Space,
    StuckProcess,
    ToldTrouble,
    UsedPath,
    XidEvent,
)
from gpudoctor.snapshot.network import (
    Address,
    ConfigFile,
    Firewall,
    Gid,
    GpuDirect,
    Interface,
    Network,
    PciPath,
    RankSettings,
    RdmaDevice,
    RdmaPort,
    Rendezvous,
    Route,
)
from gpudoctor.snapshot.nvidia import (
    Cuda,
    CudaAnswer,
    CudaDevice,
    EccCounts,
    Fabric,
    Gpu,
    GpuProcess,
    MigDevice,
    Nvidia,
    NvLink,
    PeerAccess,
    RemappedRows,
    RetiredPages,
    TopologyLevel,
)
from gpudoctor.snapshot.reading import (
    INCOMPLETE,
    NEVER_IN_OUTPUT,
    NOT_IN_OUTPUT,
    NOT_IN_SNAPSHOT,
    Missing,
    MissingKind,
    NotApplicable,
    NotRead,
    Reading,
    absent,
    is_cut_off,
    is_left_out,
    missing,
    read,
    require,
)
from gpudoctor.snapshot.training import (
    Active,
    AmpResult,
    AmpTarget,
    Library,
    Probe,
    SmokeResult,
    SmokeTarget,
    TorchDevice,
    TorchFacts,
    TorchFiles,
    Training,
    TrainResult,
)

SCHEMA = 1
"""Number of the snapshot's JSON layout; raised when an older gpudoctor could misread a newer file."""


class Snapshot(Struct, frozen=True):
    """One machine at one time."""

    schema: int = SCHEMA
    gpudoctor: Version = ""
    """Version of the gpudoctor that wrote it."""
    taken_at: Reading[str] = NOT_IN_SNAPSHOT
    """UTC, ISO 8601."""
    origin: str = "this machine"
    """"this machine", or what a pasted file was ("nvidia-smi -q -x")."""
    lacks: tuple[str, ...] = ()
    """Of pasted output: what was cut off or is of a kind that says nothing of the devices' health, in words."""
    told_troubles: Reading[tuple[ToldTrouble, ...]] = missing("other programs' words", "of pasted text", "not-asked")
    """Lines of pasted text in which programs beside the tools tell of a failure."""
    expected: Reading[Expectation] = absent("--expect", "nobody said what to expect")
    """What this machine was said to have, by whoever asks about it."""
    environment: Reading[dict[VariableName, str]] = NOT_IN_SNAPSHOT
    """Environment variables on the allow-list of `gpudoctor.knowledge.environment`; never a secret."""
    nvidia: Nvidia = Nvidia()
    cuda: Cuda = Cuda()
    accelerators: Accelerators = Accelerators()
    host: Host = Host()
    network: Network = Network()
    training: Training = Training()
    active: Active = Active()


class UnreadableSnapshot(BadInput):
    """Bytes that are no snapshot this version can read; the message is one line for the user."""


class CutSnapshot(UnreadableSnapshot):
    """The beginning of something that gpudoctor wrote: of the machine nothing can be told."""

    status = 3


OWN_FIELDS = (b'"schema"', b'"gpudoctor"', b'"kind"')
"""One stands at the beginning of whatever gpudoctor writes as JSON."""


def is_cut(raw: bytes) -> bool:
    """Whether these bytes are JSON of gpudoctor's that ends before it is complete."""
    if not any(name in raw[:400] for name in OWN_FIELDS):
        return False
    try:
        msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)  # the only sign that msgspec gives
    except (RecursionError, UnicodeDecodeError):
        return False
    return False


def to_json(snapshot: Snapshot, *, indent: int = 0) -> bytes:
    """The snapshot as JSON (UTF-8), with `indent` spaces a level, or on one line with 0."""
    raw = msgspec.json.encode(snapshot)
    return msgspec.json.format(raw, indent=indent) if indent else raw


def from_json(raw: bytes) -> Snapshot:
    """Decode a snapshot. Raises `UnreadableSnapshot` with what is wrong and where."""

    class Header(Struct):
        schema: int

    try:
        schema = msgspec.json.decode(raw, type=Header).schema
        if schema != SCHEMA:
            raise UnreadableSnapshot(
                f"snapshot schema {schema}; this gpudoctor reads schema {SCHEMA}: "
                + ("upgrade gpudoctor" if schema > SCHEMA else "capture it again with this version")
            )
        return msgspec.json.decode(raw, type=Snapshot)
    except msgspec.ValidationError as error:
        raise UnreadableSnapshot(f"not a gpudoctor snapshot: {told(error, raw)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if is_cut(raw):
            raise CutSnapshot(
                "the file is cut: its JSON ends before it is complete; capture or copy it again"
            ) from None
        raise UnreadableSnapshot(f"not valid JSON: {error}") from None
    except RecursionError:
        raise UnreadableSnapshot("not a gpudoctor snapshot: nested too deeply") from None


__all__ = [
    "DRIVER_NOT_TOLD",
    "SCHEMA",
    "INCOMPLETE",
    "NEVER_IN_OUTPUT",
    "NOT_IN_OUTPUT",
    "NOT_IN_SNAPSHOT",
    "Missing",
    "MissingKind",
    "NotApplicable",
    "NotRead",
    "Reading",
    "CutSnapshot",
    "UnreadableSnapshot",
    "absent",
    "is_cut_off",
    "is_left_out",
    "missing",
    "read",
    "require",
    "from_json",
    "is_cut",
    "to_json",
    "Snapshot",
    "Nvidia",
    "Gpu",
    "GpuProcess",
    "MigDevice",
    "NvLink",
    "Fabric",
    "EccCounts",
    "Expectation",
    "RemappedRows",
    "RetiredPages",
    "PeerAccess",
    "Cuda",
    "CudaAnswer",
    "CudaDevice",
    "Accelerators",
    "PciDevice",
    "DeviceNode",
    "Host",
    "Limits",
    "Cgroup",
    "Change",
    "ChangeKind",
    "Space",
    "UsedPath",
    "StuckProcess",
    "ToldTrouble",
    "KernelLog",
    "XidEvent",
    "LinkLimit",
    "AcsBridge",
    "Address",
    "AmpResult",
    "AmpTarget",
    "ConfigFile",
    "Firewall",
    "Gid",
    "GpuDirect",
    "Interface",
    "Network",
    "PciPath",
    "RankSettings",
    "RdmaDevice",
    "RdmaPort",
    "Rendezvous",
    "Route",
    "TopologyLevel",
    "TrainResult",
    "Training",
    "TorchFiles",
    "TorchFacts",
    "TorchDevice",
    "Library",
    "Probe",
    "Active",
    "SmokeResult",
    "SmokeTarget",
]
